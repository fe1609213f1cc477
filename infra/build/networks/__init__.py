"""Builds the network table that ships: `python -m advisor.infra.build.networks build`; see `__main__`."""
