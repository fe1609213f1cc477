"""Steady state: which steps count. Pure functions on raw step times.

A change-point test on the logarithms of step times: the series is cut where the levels before
and after differ most, measured in standard errors (the maximally selected two-sample statistic;
Hawkins 1977, JASA 72:180-186). Values are first drawn in to three deviations of the later half
(Huber's winsorising), so that stalls of any length weigh like slightly long steps.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from advisor.domain.steps import are_even, stall_indices, typical_step_seconds

# About the 1 % point of the maximum over 20 to 200 places, for independent normal values.
_CRITICAL = 3.4
_TOLERATED_WARMUP = 0.01
_TOLERATED_DRIFT = 0.05
_SMALLEST_DEVIATION = 0.002  # a timer's and scheduler's own noise, of a log
_DRAWN_IN_TO = 3.0
_SIGMA_OF_MAD = 1.4826


def is_steady(step_seconds: Sequence[float], period: int = 1) -> bool:
    """Whether the level does not change anywhere by more than 5 % and more than chance.

    Fewer than four steps are never steady.
    """
    if len(step_seconds) < 4:
        return False
    values = _levels(step_seconds, _group(step_seconds, period))
    return _change(values, len(values) - 1, _TOLERATED_DRIFT) is None


def count_warmup_steps(step_seconds: Sequence[float], period: int = 1) -> int:
    """How many leading steps come before steady state; at most half of them.

    The series is cut at its first level change, and what remains again, until there is none in
    its first half. Changes of less than 1 % are left: they bias nothing by more than that.
    """
    size = _group(step_seconds, period)
    values = _levels(step_seconds, size)
    most = len(values) // 2
    dropped = 0
    while (cut := _change(values[dropped:], most - dropped, _TOLERATED_WARMUP)) is not None:
        dropped += cut
    return min(dropped * size, len(step_seconds) // 2)


def _change(values: Sequence[float], furthest: int, tolerated: float) -> int | None:
    """The place up to `furthest` where the level changes most; None where it is chance."""
    count = len(values)
    if count < 3 or furthest < 1:
        return None
    deviation = _deviation(values)
    total, before = sum(values), 0.0
    best, place, difference = 0.0, 0, 0.0
    for cut in range(1, min(furthest, count - 1) + 1):
        before += values[cut - 1]
        gap = abs(before / cut - (total - before) / (count - cut))
        errors = gap / (deviation * math.sqrt(1 / cut + 1 / (count - cut)))
        if errors > best:
            best, place, difference = errors, cut, gap
    return place if best > _CRITICAL and difference > tolerated else None


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
    """Logs of the means of groups of steps, drawn in to three deviations of the later half."""
    whole = len(step_seconds) - len(step_seconds) % size
    groups = [step_seconds[index : index + size] for index in range(0, whole, size)]
    logs = [math.log(max(statistics.fmean(group), 1e-9)) for group in groups]
    if len(logs) < 3:
        return logs
    later = logs[len(logs) // 2 :]
    middle = statistics.median(later)
    deviation = _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in later)
    reach = _DRAWN_IN_TO * max(deviation, 5 * _SMALLEST_DEVIATION)
    return [min(max(value, middle - reach), middle + reach) for value in logs]


def _group(step_seconds: Sequence[float], period: int) -> int:
    """Steps that are looked at together: single ones where they are even, else whole rounds of
    the loader, since a long step followed by a short one is no change."""
    later = list(step_seconds[len(step_seconds) // 2 :])
    stalls = set(stall_indices(later, period))
    if len(step_seconds) < 8 or are_even([s for i, s in enumerate(later) if i not in stalls]):
        return 1
    return max(1, min(max(2, period), len(step_seconds) // 6))


MINUTE_SECONDS = 60.0
_FEWEST_STEPS = 6


def pace(step_seconds: Sequence[float], samples_per_step: int, period: int = 1) -> dict[str, float]:
    """Samples per second of the first minute and of the last one (of what follows the first
    where that is shorter), and the seconds in which the last was seen.

    `step_seconds` are all steps in order, warm-up too: a burst at the start looks like one.
    Empty unless each part has at least six steps.
    """
    ends = list(itertools.accumulate(step_seconds))
    if not ends or ends[-1] <= MINUTE_SECONDS:
        return {}
    split = sum(end <= MINUTE_SECONDS for end in ends)
    begin = max(split, sum(end <= ends[-1] - MINUTE_SECONDS for end in ends))
    first, last = step_seconds[:split], step_seconds[begin:]
    if min(len(first), len(last)) < _FEWEST_STEPS:
        return {}
    return {
        "first_minute_samples_per_second": samples_per_step / typical_step_seconds(first, period),
        "sustained_samples_per_second": samples_per_step / typical_step_seconds(last, period),
        "sustained_over_seconds": sum(last),
    }
