"""The content of the store, for the command line and the service alike."""
