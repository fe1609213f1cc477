"""The child of one trial: `python -m sweeps.worker` measures it with torch."""
