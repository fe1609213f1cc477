"""What a candidate must keep to be recommended, and for which of it a type is turned down.

The limits are judged in one order. A type is turned down for the first one that none of its
candidates keeps, of those that keep all before it: so the reason is true of the whole type,
whatever its disk and batch. `wording.shortfall` tells the reasons in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from advisor.domain import Candidate, Request
from advisor.engine.runs import in_time, sure_rate, within_cost
from advisor.engine.wording import soon_enough

Kept = Callable[[Request, Candidate], bool]


def answers(request: Request, candidate: Candidate) -> bool:
    """Whether a candidate may be recommended: sure enough, fast enough, within the price."""
    for keeps, _ in _LIMITS:  # noqa: SIM110 - asked of thousands, and `all` takes twice as long
        if not keeps(request, candidate):
            return False
    return True


def closest(request: Request, group: Sequence[Candidate]) -> Candidate:
    """Of candidates that all miss something, the one that shows best what they miss."""
    left = list(group)
    for keeps, nearness in _LIMITS:
        within = [one for one in left if keeps(request, one)]
        if not within:
            return max(left, key=lambda one: (_about(nearness(one)), -one.spec.total_usd_per_hour))
        left = within
    raise ValueError("one of them misses nothing")


def _about(value: float) -> float:
    """Without the last digits, in which equal rates may differ: of those the cheapest is told."""
    return float(f"{value:.9g}")


def affordable(request: Request, candidate: Candidate) -> bool:
    """Whether instance and disk cost no more than `max_usd_per_hour`."""
    limit = request.max_usd_per_hour
    return limit is None or candidate.spec.total_usd_per_hour <= limit


def has_interval(request: Request, candidate: Candidate) -> bool:
    """Whether something held out backs the bounds, or none of it is asked for."""
    return candidate.prediction.calibrated or request.allow_extrapolation


def _fast_enough(request: Request, candidate: Candidate) -> bool:
    target = request.target_throughput
    return target is None or candidate.prediction.lower >= target


def _late(one: Candidate) -> float:
    return -one.latency.p99_seconds if one.latency else -math.inf


def _dear_run(one: Candidate) -> float:
    return -one.usd_per_run.upper if one.usd_per_run else -math.inf


# In the order in which a type is judged: whether it is kept, and how near a candidate comes to it.
_LIMITS: tuple[tuple[Kept, Callable[[Candidate], float]], ...] = (
    (has_interval, sure_rate),
    (soon_enough, _late),
    (_fast_enough, lambda one: one.prediction.lower),
    (in_time, sure_rate),
    (within_cost, _dear_run),
    (affordable, lambda one: -one.spec.total_usd_per_hour),
)
