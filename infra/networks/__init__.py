"""Builds the network table that ships: `python -m infra.networks build`; see `__main__`."""
