"""Facts of this machine and of other load on it. Standard library only."""
