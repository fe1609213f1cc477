"""What a user brings of a network: its operations, sizes and peaks."""

from advisor.models.performance.anchoring.memory import AnchoredMemory, peaks_of
from advisor.models.performance.anchoring.own import STAND_IN, OwnSizes, OwnTable, facts_of_own, kernels_from

__all__ = ["STAND_IN", "AnchoredMemory", "OwnSizes", "OwnTable", "facts_of_own", "kernels_from", "peaks_of"]
