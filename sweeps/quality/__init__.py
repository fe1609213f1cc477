"""Judges a measurement: its steady state, its interval, and disturbances."""
