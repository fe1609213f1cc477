"""Data sets for trials: made here from photographs, or a folder of the user's own."""

from advisor.sweeps.datasets.opening import profile_folder

__all__ = ["profile_folder"]
