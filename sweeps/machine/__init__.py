"""What this machine is, and what else it does. Standard library only."""
