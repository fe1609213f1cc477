"""Whether a rate is what was achieved, and its interval where the next run lies."""
