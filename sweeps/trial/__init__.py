"""The parent of one trial: its limits, its worker process, its end. Never loads torch."""
