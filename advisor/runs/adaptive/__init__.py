"""Sweeps that plan themselves: which trials, in which order, until when."""
