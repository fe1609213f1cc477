"""Data sets for trials: made here from photographs, or read from a user's folder."""

from advisor.sweeps.datasets.opening import profile_folder

__all__ = ["profile_folder"]
