"""Sweeps that are killed again and again, and what is left: `python -m benchmarks.kills`."""
