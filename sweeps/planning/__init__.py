"""Plans sweeps: the trials, their order and their repeats."""
