"""The child of one trial: `python -m advisor.sweeps.worker` measures it with torch."""
