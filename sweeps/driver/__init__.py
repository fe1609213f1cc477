"""Takes a plan through its executor into the store."""
