"""Steady state: which steps count. Pure functions on raw step times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

_CANDIDATE_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_TOLERATED_DRIFT = 0.05
_STANDARD_ERRORS = 2.0


def is_steady(step_seconds: Sequence[float]) -> bool:
    """Whether the two halves agree: their mean log times differ by less than 5 %, or by less
    than two standard errors, judged by the later half (the noise of slow first steps must not
    excuse them). Fewer than four steps never agree."""
    if len(step_seconds) < 4:
        return False
    logs = [math.log(max(seconds, 1e-9)) for seconds in _paired(step_seconds)]
    middle = len(logs) // 2
    first, second = logs[:middle], logs[middle:]
    difference = abs(statistics.fmean(first) - statistics.fmean(second))
    error = math.sqrt(2 * _variance_of_mean(second))
    return difference <= max(_TOLERATED_DRIFT, _STANDARD_ERRORS * error)


def count_warmup_steps(step_seconds: Sequence[float]) -> int:
    """How many leading steps come before steady state; at most half of them.

    The shortest prefix is dropped that leaves a steady rest. Where no prefix does, half is
    dropped: what is later is closer to the steady state than what is earlier.
    """
    for share in _CANDIDATE_SHARES:
        warmup = int(len(step_seconds) * share)
        if is_steady(step_seconds[warmup:]):
            return warmup
    return len(step_seconds) // 2


def _paired(step_seconds: Sequence[float]) -> list[float]:
    """Means of neighbours: loader workers deliver in bunches, and a long step followed by a
    short one is not a drift."""
    if len(step_seconds) < 8:
        return list(step_seconds)
    return [
        (step_seconds[index] + step_seconds[index + 1]) / 2
        for index in range(0, len(step_seconds) - 1, 2)
    ]


def _variance_of_mean(values: Sequence[float]) -> float:
    return statistics.variance(values) / len(values) if len(values) > 1 else 0.0
