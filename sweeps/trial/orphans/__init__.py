"""What killed sweeps left on this machine: found by its names, and removed."""
