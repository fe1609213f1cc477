"""The specs that nothing beats in both: less money an hour, and more samples that are sure."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.domain import Candidate, Request


def wants_front(request: Request) -> bool:
    """Where price and rate are weighed by the reader: without a target, and where it is asked."""
    return request.target_throughput is None or request.pareto


def pareto_front(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Those than which no other is as cheap and faster, or as fast and cheaper; cheapest first.

    Of equal ones the first by name, then by the smaller batch.
    """
    front: list[Candidate] = []
    for one in sorted(candidates, key=_order):
        if not front or one.prediction.lower > front[-1].prediction.lower:
            front.append(one)
    return tuple(front)


def _order(one: Candidate) -> tuple[float, float, str, int]:
    spec = one.spec
    return (
        spec.total_usd_per_hour,
        -one.prediction.lower,
        spec.offer.instance.name,
        one.workload.batch_size,
    )
