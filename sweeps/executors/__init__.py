"""Ways to execute trials: a process after another, Ray, or a replay of stored rows."""
