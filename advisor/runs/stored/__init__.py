"""What the store holds, for those who ask: the command line and the service alike."""
