"""The quality of a measurement: its steady state, its interval, what disturbed it."""
