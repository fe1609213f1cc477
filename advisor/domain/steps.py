"""The rate that a run's step times give: their mean, and the time lost in stalls (standard library
only)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

# A stall is far outside the spread, and at least this much longer than the usual step.
_STALL_FACTOR = 1.2
_STALL_DEVIATIONS = 5.0
_SIGMA_OF_MAD = 1.4826
# More than these, and they are how the pipeline works, not accidents.
_MOST_STALLS = 0.10
_FEWEST_STEPS = 5
_FEWEST_IN_RHYTHM = 3


def mean_step_seconds(step_seconds: Sequence[float]) -> float:
    """Elapsed seconds over steps: samples of a step over this is samples over elapsed time.

    Nothing is left out: a stall is time that is paid for.
    """
    return statistics.fmean(step_seconds)


def stall_indices(step_seconds: Sequence[float], period: int = 1) -> tuple[int, ...]:
    """Indices of isolated stalls: rare, far longer than the other steps, in no rhythm.

    Long steps are no stalls when they are more than a tenth of all, or come in the rhythm of
    `period` loader processes: then they are how the pipeline works.
    """
    if len(step_seconds) < _FEWEST_STEPS:
        return ()
    middle = statistics.median(step_seconds)
    spread = statistics.median(abs(seconds - middle) for seconds in step_seconds)
    limit = max(_STALL_FACTOR * middle, middle + _STALL_DEVIATIONS * _SIGMA_OF_MAD * spread)
    long = tuple(index for index, seconds in enumerate(step_seconds) if seconds > limit)
    too_many = len(long) > max(1, _MOST_STALLS * len(step_seconds))
    return () if too_many or _in_rhythm(long, period) else long


def stall_share(step_seconds: Sequence[float], period: int = 1) -> float:
    """Share of the elapsed time that isolated stalls took beyond the usual (median) step."""
    stalls = stall_indices(step_seconds, period)
    if not stalls:
        return 0.0
    usual = statistics.median(step_seconds)
    return sum(step_seconds[index] - usual for index in stalls) / sum(step_seconds)


def _in_rhythm(indices: Sequence[int], period: int) -> bool:
    """Whether most of them stand at the same place of a loader's round."""
    if period < 2 or len(indices) < _FEWEST_IN_RHYTHM:
        return False
    return max(Counter(index % period for index in indices).values()) >= 0.75 * len(indices)
