"""Latency against throughput of the chosen instances: every split and every load of the grid that
no other beats in both."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import NamedTuple

import numpy as np

from advisor.domain import Span
from advisor.domain.language import FrontPoint, GenerationCandidate
from advisor.engine.tasks.serving.options import ServingOption
from advisor.engine.tasks.serving.prepared import ServingOptions
from advisor.engine.tasks.serving.rates import Level, Rates, Replicas
from advisor.engine.tasks.serving.table import ServingTable, rates_record
from advisor.questions.language import ServingQuestion


class _Point(NamedTuple):
    """A option on the instances under one load of each replica."""

    option: ServingOption
    rates: Rates
    instances: int

    @property
    def replicas(self) -> int:
        """Of all instances."""
        return self.instances * self.option.placement.replicas


def front_of(
    request: ServingQuestion, prepared: ServingOptions, table: ServingTable, chosen: int
) -> tuple[FrontPoint, ...]:
    """The front of as many instances as the chosen row has."""
    offer, count = table.offer(chosen), int(table.count[chosen])
    options = [option for option in prepared.options if option.offer is offer]
    return latency_front(request, options, prepared.replicas, count, float(table.usd[chosen]))


def latency_front(
    request: ServingQuestion, options: Sequence[ServingOption], replicas: Replicas, count: int, usd: float
) -> tuple[FrontPoint, ...]:
    """The front of options on `count` instances that cost `usd` an hour together, the soonest tokens
    first; by medians."""
    points = list[_Point]()
    for option, number in zip(options, replicas.numbers(options).tolist(), strict=True):
        for load in range(replicas.grid.concurrency.shape[1]):
            rates = replicas.grid.take((np.array(number), np.array(load)))
            if not np.isnan(rates.tpot[Level.MEDIAN]):
                points.append(_Point(option, rates, count))
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


def _record(request: ServingQuestion, point: _Point, usd: float) -> FrontPoint:
    rates = rates_record(request, point.rates, float(point.replicas))
    each = rates.output_tokens_per_second
    millions = [usd / 3600 / one * 1e6 for one in (each.upper, each.median, each.lower)]
    return FrontPoint(
        placement=point.option.placement,
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
    """Whether a point of the front is a candidate's own option and load."""
    same_load = isclose(point.rates.concurrency, candidate.rates.concurrency, rel_tol=1e-6)
    return same_load and point.placement == candidate.placement


def _missed(request: ServingQuestion, point: _Point) -> str:
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
