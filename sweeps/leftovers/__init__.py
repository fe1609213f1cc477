"""What killed sweeps left on this machine: found by its names (`sweeps.marks`), and removed."""
