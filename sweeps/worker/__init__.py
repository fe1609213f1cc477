"""The child process that measures one trial with torch: `python -m advisor.sweeps.worker`."""
