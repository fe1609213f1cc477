"""Builds the bundled data: catalogue, network cards, measured rows and fits. Not in the wheel."""
