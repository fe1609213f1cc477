"""Steady state: which steps count. Pure functions on raw step times.

A change-point test on the logarithms of step times: the series is cut where the levels before
and after differ most, measured in standard errors (the maximally selected two-sample statistic;
Hawkins 1977, JASA 72:180-186). Values are first drawn in to four deviations of the later half
(Huber's winsorising), so that stalls of any length weigh like slightly long steps.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from advisor.domain.results import stall_indices

# Of normal steps, 60 or more of them, a start is cut off in at most one of 200 series at this one.
_CRITICAL = 4.5
_TOLERATED_WARMUP = 0.01
_TOLERATED_DRIFT = 0.05
_SMALLEST_DEVIATION = 0.002  # a timer's and scheduler's own noise, of a log
_DRAWN_IN_TO = 4.0
_SIGMA_OF_MAD = 1.4826
_EVEN_WITHIN = 0.10
# A start that is fast (what was prepared ahead, clocks before they are hot) may be left out at any
# length up to half: that lowers the rate. A slow one is time that a user pays for, unless short.
_LONGEST_FAST_START = 0.5
_LONGEST_SLOW_START = 0.2
_MOST_OF_IT = 0.75


def is_steady(step_seconds: Sequence[float], period: int = 1) -> bool:
    """Whether the level does not change anywhere by more than 5 % and more than chance.

    Fewer than four steps are never steady.
    """
    if len(step_seconds) < 4:
        return False
    values = _levels(step_seconds, steps_together(step_seconds, period))
    return _change(values, _TOLERATED_DRIFT) is None


def count_warmup_steps(step_seconds: Sequence[float], period: int = 1, *, cold: bool = False) -> int:
    """The number of leading steps before steady state; no step after it is ever left out.

    A series begins where the pipeline already runs; of a `cold` one the first step loads kernels
    and fills queues, and is warm-up whatever it took. Beyond that the first level change is cut
    off, and that of what remains, as long as all that is cut is a short slow start (up to a fifth)
    or a fast one (up to half). So neither a stall (a single step or round, wherever it stands) nor
    a slow phase of the run is ever warm-up. Changes below 1 % bias nothing by more than that.
    """
    if cold and len(step_seconds) > 1:
        return 1 + count_warmup_steps(step_seconds[1:], period)
    size = steps_together(step_seconds, period)
    values = _levels(step_seconds, size)
    dropped = 0
    while cut := _start(values, dropped):
        dropped += cut
    return dropped * size


def _start(values: Sequence[float], dropped: int) -> int:
    """The values of the next start that may be cut off behind `dropped` ones; 0 for none."""
    rest = values[dropped:]
    level = _drawn_in(rest)
    cut = _change(rest, _TOLERATED_WARMUP)
    while cut is not None:
        start, after = level[:cut], statistics.fmean(level[cut:])
        slow = sum(value > after + _TOLERATED_WARMUP for value in start)
        is_fast = statistics.fmean(start) < after
        # Most of a slow start is slow: a stall among steps as all others is none.
        is_start = cut > 1 and (is_fast or slow >= _MOST_OF_IT * cut)
        longest = _LONGEST_FAST_START if is_fast else _LONGEST_SLOW_START
        if is_start and dropped + cut <= longest * len(values):
            return cut
        cut = _change(rest[:cut], _TOLERATED_WARMUP)  # a change further on may hide an earlier one
    return 0


def _change(values: Sequence[float], tolerated: float) -> int | None:
    """The place where the level changes most; None where it is chance."""
    count = len(values)
    if count < 3:
        return None
    values = _drawn_in(values)
    deviation = _deviation(values)
    total, before = sum(values), 0.0
    best, best_cut, difference = 0.0, 0, 0.0
    for cut in range(1, count):
        before += values[cut - 1]
        gap = abs(before / cut - (total - before) / (count - cut))
        errors = gap / (deviation * math.sqrt(1 / cut + 1 / (count - cut)))
        if errors > best:
            best, best_cut, difference = errors, cut, gap
    return best_cut if best > _CRITICAL and difference > tolerated else None


def _deviation(values: Sequence[float]) -> float:
    """Spread of the later half, of neighbours' differences where those say less: a level that
    moves must not excuse itself."""
    later = values[len(values) // 2 :]
    middle = statistics.median(later)
    around = _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in later)
    if len(later) > 2:
        steps = [abs(b - a) for a, b in itertools.pairwise(later)]
        around = min(around, _SIGMA_OF_MAD * statistics.median(steps) / math.sqrt(2))
    return max(around, _SMALLEST_DEVIATION)


def _levels(step_seconds: Sequence[float], size: int) -> list[float]:
    """Logs of the means of groups of steps."""
    whole = len(step_seconds) - len(step_seconds) % size
    groups = [step_seconds[index : index + size] for index in range(0, whole, size)]
    return [math.log(max(statistics.fmean(group), 1e-9)) for group in groups]


def _drawn_in(values: Sequence[float]) -> Sequence[float]:
    """The values, none further off the middle of the later half than four deviations."""
    if len(values) < 3:
        return values
    later = values[len(values) // 2 :]
    middle = statistics.median(later)
    deviation = _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in later)
    reach = _DRAWN_IN_TO * max(deviation, 5 * _SMALLEST_DEVIATION)
    return [min(max(value, middle - reach), middle + reach) for value in values]


def steps_together(step_seconds: Sequence[float], period: int) -> int:
    """Steps that are looked at together: single ones where all but stalls lie within 10 % of their median,
    else whole rounds of the loader, since a long step followed by a short one is no change."""
    later = list(step_seconds[len(step_seconds) // 2 :])
    stalls = set(stall_indices(later, period))
    usual = [seconds for index, seconds in enumerate(later) if index not in stalls]
    middle = statistics.median(usual) if usual else 0.0
    if len(step_seconds) < 8 or all(abs(seconds - middle) <= _EVEN_WITHIN * middle for seconds in usual):
        return 1
    return max(1, min(max(2, period), len(step_seconds) // 6))
