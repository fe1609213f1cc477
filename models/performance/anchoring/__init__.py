"""Rates from a user's own measurement on one GPU: its step time times the model's ratio."""

from models.performance.anchoring.memory import AnchoredMemory, peaks_of
from models.performance.anchoring.model import Anchored, anchored_model
from models.performance.anchoring.own import OwnSizes, OwnTable, facts_of_own, operations_from
from models.performance.anchoring.rates import AnchoredRates
from models.performance.anchoring.records import GpuTrial

__all__ = [
    "Anchored",
    "AnchoredMemory",
    "AnchoredRates",
    "GpuTrial",
    "OwnSizes",
    "OwnTable",
    "anchored_model",
    "facts_of_own",
    "operations_from",
    "peaks_of",
]
