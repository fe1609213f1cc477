"""Sweeps that plan themselves: which trials, in which order, until when."""

from advisor.runs.adaptive.budget import Budget, parse_budget
from advisor.runs.adaptive.planning import AdaptiveSweep, Item, Standing, adaptive_sweep
from advisor.runs.adaptive.running import run_adaptive

__all__ = [
    "AdaptiveSweep", "Budget", "Item", "Standing", "adaptive_sweep", "parse_budget",
    "run_adaptive",
]  # fmt: skip
