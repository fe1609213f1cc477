"""Builds the network table that ships: `python -m advisor.infra.networks build`; see `__main__`."""
