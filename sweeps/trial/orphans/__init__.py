"""Finds by their names the leftovers of killed sweeps on this machine, and removes them."""
