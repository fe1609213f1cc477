"""Plans sweeps: the trials, their order, their repeats, and the stored ones that are fresh enough."""
