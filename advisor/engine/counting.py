"""How many identical instances it takes: side by side, each with a disk and a copy of the data.

Instances that share nothing have the bottleneck of one of them, and all are wrong alike: what one
surely reaches, n surely reach n times. That holds where samples are independent (inference,
preprocessing). In training they exchange gradients over a network whose rate no catalogue here
has, and published runs on several hosts are of two types of instances (docs/internals/model.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from advisor.catalog.quotas import most_startable
from advisor.domain import Candidate, Request, Task
from advisor.errors import UsageError
from advisor.records import replace

# Beyond this nobody rents a handful of machines, and wants another kind of answer.
MOST_INSTANCES = 1000


def require_countable(request: Request) -> None:
    """Refuse several instances where nothing published says how they scale."""
    if request.max_count > 1 and request.task is Task.TRAINING:
        raise UsageError(
            "--max-count goes with inference and preprocessing: how training scales over several "
            "instances depends on the network between them, which is published for too few types; "
            "ask for --max-count 1, where instances with several GPUs count"
        )


def counted(request: Request, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each candidate with as many instances as it needs, `max_count` where those are too few."""
    if request.max_count == 1:
        return list(candidates)
    return [at_count(one, needed_count(request, one)) for one in candidates]


def needed_count(request: Request, one: Candidate) -> int:
    """The fewest instances that surely reach the target and end in time, as many as may be had at
    most: `max_count`, and what the quota allows."""
    target, limit = request.target_throughput, request.max_hours
    single = at_count(one, 1)
    needed = [1.0]
    if target is not None:
        needed.append(_over(target, single.prediction.lower))
    if limit is not None and single.run is not None:
        needed.append(_over(single.run.hours.upper, limit))
    return int(min(max(needed), most_count(request, one)))


def most_count(request: Request, one: Candidate) -> int:
    """As many instances as may be had: `max_count`, and what the quota allows; one at least."""
    startable = most_startable(one.spec.offer, request.vcpu_quota)
    return int(min(request.max_count, max(1.0, startable)))


def count_that_would_do(request: Request, nearest: Candidate) -> int | None:
    """How many of the nearest would answer if only as many were allowed; None where other limits
    stand in the way, or nobody would rent so many."""
    target, single = request.target_throughput, at_count(nearest, 1)
    if request.task is Task.TRAINING or target is None or request.max_usd_per_hour is not None:
        return None
    needed = _over(target, single.prediction.lower)
    most = min(MOST_INSTANCES, most_startable(nearest.spec.offer, request.vcpu_quota))
    return int(needed) if request.max_count < needed <= most else None


def at_count(one: Candidate, count: int) -> Candidate:
    """The candidate with another number of instances: rates, run and price of all together."""
    if count == one.spec.count:
        return one
    factor = count / one.spec.count
    return replace(
        one,
        spec=replace(one.spec, count=count),
        prediction=one.prediction.times(factor),
        run=one.run.shared_by(factor) if one.run else None,
    )


def as_many_as_affordable(request: Request, one: Candidate) -> Candidate:
    """With no more instances than the price allows, one at least."""
    limit, each = request.max_usd_per_hour, one.spec.usd_per_hour_each
    if limit is None or one.spec.count == 1 or one.spec.total_usd_per_hour <= limit:
        return one
    return at_count(one, max(1, math.floor(limit / each)))


def with_one_less(one: Candidate) -> list[Candidate]:
    """The candidate and, where it needs several instances, the same with one of them less."""
    return [one, at_count(one, one.spec.count - 1)] if one.spec.count > 1 else [one]


def _over(wanted: float, each: float) -> float:
    """The least whole number of times `each` that makes `wanted`; infinite where none does, and
    where it is beyond what floats count by ones."""
    if not 0 < each < math.inf or not wanted / each < 2**53:
        return math.inf
    times = math.ceil(wanted / each)
    # Division rounds: what it says may be one off either way.
    while times > 1 and (times - 1) * each >= wanted:
        times -= 1
    return times if times * each >= wanted else times + 1
