"""Runs one trial from its parent process: limits, worker process, cleaning up. Never loads torch."""
