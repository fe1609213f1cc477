"""GPU memory of a network from the peaks that its anchor saw, where nothing was traced."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from advisor.domain import Observation, Workload
from advisor.models.performance.memory import bundled_peak_model
from advisor.models.performance.memory.peak import card_mib

# What another card's workspaces and allocator may take more.
_MARGIN = 1.1


class AnchoredMemory(Struct, frozen=True):
    """The smallest card that surely runs a batch, from (batch, MiB) that rise with the batch."""

    peaks: tuple[tuple[int, float], ...]

    def needed_card_mib(self, workload: Workload) -> float:
        """MiB of the card; 0 where no anchor saw a peak."""
        if not self.peaks:
            return 0.0
        peak = _MARGIN * _peak_at(self.peaks, workload.batch_size)
        return card_mib(peak + bundled_peak_model().context_mib)


def peaks_of(observations: Sequence[Observation]) -> AnchoredMemory:
    """The largest peak of each batch size, never falling with the batch."""
    by_batch: dict[int, float] = {}
    for observation in observations:
        if observation.peak_mib is not None:
            batch = observation.workload.batch_size
            by_batch[batch] = max(observation.peak_mib, by_batch.get(batch, observation.peak_mib))
    peaks: list[tuple[int, float]] = []
    for batch in sorted(by_batch):
        peaks.append((batch, max(by_batch[batch], peaks[-1][1] if peaks else 0.0)))
    return AnchoredMemory(tuple(peaks))


def _peak_at(peaks: Sequence[tuple[int, float]], batch: int) -> float:
    """Between peaks, that of the larger batch; beyond, along the steepest line, and from a
    single peak as if all of it grew: never less than it takes."""
    for size, mib in peaks:
        if batch <= size:
            return mib
    (last, most) = peaks[-1]
    slopes = [(high - low) / (b - a) for (a, low), (b, high) in pairwise(peaks)]
    slope = max(slopes, default=most / last)
    return most + slope * (batch - last)
