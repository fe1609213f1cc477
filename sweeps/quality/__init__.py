"""How good a measurement is: its steady state, its interval, what disturbed it."""
