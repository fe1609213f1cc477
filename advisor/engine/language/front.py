"""Latency against throughput of the chosen instances: every split and every load of the grid that
no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import NamedTuple

import numpy as np

from advisor.domain import Span
from advisor.domain.language import FrontPoint, GenerationCandidate, GenerationRequest
from advisor.engine.language.prepared import Prepared
from advisor.engine.language.rates import Level, Rates, Replicas
from advisor.engine.language.table import ServingTable, rates_record
from advisor.engine.language.ways import Way


class _Point(NamedTuple):
    """A way on the instances under one load of each replica."""

    way: Way
    rates: Rates
    instances: int

    @property
    def replicas(self) -> int:
        """Of all instances."""
        return self.instances * self.way.placement.replicas


def front_of(
    request: GenerationRequest, prepared: Prepared, table: ServingTable, chosen: int
) -> tuple[FrontPoint, ...]:
    """The front of as many instances as the chosen row has."""
    offer, count = table.offer(chosen), int(table.count[chosen])
    ways = [way for way in prepared.ways if way.offer is offer]
    return latency_front(request, ways, prepared.replicas, count, float(table.usd[chosen]))


def latency_front(
    request: GenerationRequest, ways: Sequence[Way], replicas: Replicas, count: int, usd: float
) -> tuple[FrontPoint, ...]:
    """The front of ways on `count` instances that cost `usd` an hour together, the soonest tokens
    first; by medians."""
    points = list[_Point]()
    for way, number in zip(ways, replicas.numbers(ways).tolist(), strict=True):
        for load in range(replicas.grid.concurrency.shape[1]):
            rates = replicas.grid.take((np.array(number), np.array(load)))
            if not np.isnan(rates.tpot[Level.MEDIAN]):
                points.append(_Point(way, rates, count))
    points.sort(key=lambda one: (one.rates.tpot[Level.MEDIAN], -_output(one, Level.MEDIAN)))
    front, most = list[FrontPoint](), 0.0
    for point in points:
        output = _output(point, Level.MEDIAN)
        if output > most:
            most = output
            front.append(_record(request, point, usd))
    return tuple(front)


def _output(point: _Point, level: Level) -> float:
    return float(point.replicas * point.rates.output[level])


def _record(request: GenerationRequest, point: _Point, usd: float) -> FrontPoint:
    rates = rates_record(request, point.rates, float(point.replicas))
    each = rates.output_tokens_per_second
    millions = [usd / 3600 / one * 1e6 for one in (each.upper, each.median, each.lower)]
    return FrontPoint(
        placement=point.way.placement,
        rates=rates,
        usd_per_million_output_tokens=Span(lower=millions[0], median=millions[1], upper=millions[2]),
        misses=_missed(request, point),
    )


def with_chosen(front: Sequence[FrontPoint], candidate: GenerationCandidate) -> tuple[FrontPoint, ...]:
    """The front with what is recommended, whose load may lie between those of the grid."""
    chosen = FrontPoint(
        placement=candidate.placement,
        rates=candidate.rates,
        usd_per_million_output_tokens=candidate.usd_per_million_output_tokens,
        misses="",
    )
    others = [point for point in front if not is_at(point, candidate)]
    return tuple(sorted([*others, chosen], key=lambda one: one.rates.tpot_seconds.median))


def is_at(point: FrontPoint, candidate: GenerationCandidate) -> bool:
    """Whether a point of the front is a candidate's own way and load."""
    same_load = isclose(point.rates.concurrency, candidate.rates.concurrency, rel_tol=1e-6)
    return same_load and point.placement == candidate.placement


def _missed(request: GenerationRequest, point: _Point) -> str:
    """ "limit" or "target", whichever the load misses by the bounds that count; '' for none."""
    rates, sure = point.rates, Level.SURE
    limits = (
        (1000 * rates.ttft[sure], request.max_ttft_ms),
        (1000 * rates.tpot[sure], request.tpot_limit_ms),
        (rates.e2e(request.output_tokens)[sure], request.max_e2e_seconds),
    )
    output = _output(point, sure)
    wanted = (
        (output, request.target_output_tokens_per_second),
        (output / request.output_tokens, request.target_requests_per_second),
        (point.replicas * float(rates.concurrency), request.users),
    )
    if any(most is not None and value > most for value, most in limits):
        return "limit"
    return "target" if any(least is not None and one < least for one, least in wanted) else ""
