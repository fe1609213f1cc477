"""The typical step of a run, and the steps that are no part of it (standard library only)."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

_EVEN_WITHIN = 0.10
# A stall is far outside the spread, and at least this much longer than the usual step.
_STALL_FACTOR = 1.2
_STALL_DEVIATIONS = 5.0
_SIGMA_OF_MAD = 1.4826
# More than these, and they are how the pipeline works, not accidents.
_MOST_STALLS = 0.10
_MOST_TIME_IN_STALLS = 0.20
_FEWEST_IN_RHYTHM = 3


def typical_step_seconds(step_seconds: Sequence[float], period: int = 1) -> float:
    """Seconds of a step: the median where steps are even, else the median of block means.

    Accidents are left out (`without_accidents`). Where the rest lies within 10 % of its median,
    that is the answer. Else loader processes deliver in bunches (two of them give a long step
    and a short one in turn), and a single step tells nothing: blocks do.
    """
    kept = without_accidents(step_seconds, period)
    if are_even(kept):
        return statistics.median(kept)
    length = block_length(len(kept), period)
    starts = range(0, max(1, len(kept) - length + 1), length)
    ends = [*starts[1:], len(kept)]
    blocks = [kept[start:end] for start, end in zip(starts, ends, strict=True)]
    return statistics.median(map(statistics.fmean, blocks))


def block_length(steps: int, period: int = 1) -> int:
    """Steps in a block: whole rounds of `period` loader processes, eight blocks or so."""
    unit = period * math.ceil(4 / period)
    return unit * max(1, math.ceil(steps / (8 * unit)))


def are_even(step_seconds: Sequence[float]) -> bool:
    """Whether every step lies within 10 % of the median."""
    middle = statistics.median(step_seconds)
    return all(abs(seconds - middle) <= _EVEN_WITHIN * middle for seconds in step_seconds)


def stall_indices(step_seconds: Sequence[float], period: int = 1) -> tuple[int, ...]:
    """Which steps are isolated stalls: rare, far longer than the others, in no rhythm.

    They are accidents of the machine (an interrupt, a neighbour), and stay in the raw values.
    Long steps are no stalls when they are more than a tenth of all, take more than a fifth of
    the time, or come in the rhythm of `period` loader processes: then they are the pipeline.
    """
    if len(step_seconds) < 5:
        return ()
    middle = statistics.median(step_seconds)
    spread = statistics.median(abs(seconds - middle) for seconds in step_seconds)
    limit = max(_STALL_FACTOR * middle, middle + _STALL_DEVIATIONS * _SIGMA_OF_MAD * spread)
    long = tuple(index for index, seconds in enumerate(step_seconds) if seconds > limit)
    excess = sum(step_seconds[index] - middle for index in long)
    too_many = len(long) > max(1, _MOST_STALLS * len(step_seconds))
    too_long = len(long) > 1 and excess > _MOST_TIME_IN_STALLS * sum(step_seconds)
    return () if too_many or too_long or _in_rhythm(long, period) else long


def without_accidents(step_seconds: Sequence[float], period: int = 1) -> list[float]:
    """The steps but for stalls (`stall_indices`) and the shorter ones right behind each.

    What was prepared during a stall goes fast after it, and would make up for a stall that is
    not counted.
    """
    stalls = stall_indices(step_seconds, period)
    shorter = (1 - _EVEN_WITHIN) * statistics.median(step_seconds)
    accidents = set(stalls)
    for index in stalls:
        for later in range(index + 1, len(step_seconds)):
            if step_seconds[later] >= shorter:
                break
            accidents.add(later)
    return [seconds for index, seconds in enumerate(step_seconds) if index not in accidents]


def _in_rhythm(indices: Sequence[int], period: int) -> bool:
    """Whether most of them stand at the same place of a loader's round."""
    if period < 2 or len(indices) < _FEWEST_IN_RHYTHM:
        return False
    return max(Counter(index % period for index in indices).values()) >= 0.75 * len(indices)
