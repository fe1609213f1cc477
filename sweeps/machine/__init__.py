"""Facts of this machine and of its other load. Standard library only."""
