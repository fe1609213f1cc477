"""Runs trials on the nodes of a Ray cluster."""
