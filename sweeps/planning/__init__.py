"""What to measure: trials, in which order, how often, and what is fresh enough."""
