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
from advisor.engine.tasks.serving.rates import Level, Rates, Replicas, deciding_level
from advisor.engine.tasks.serving.table import rates_record
from advisor.questions.language import ServingQuestion


class _Point(NamedTuple):
    """An option with so many replicas, under one load of each."""

    option: ServingOption
    rates: Rates
    replicas: int

    def output(self, level: Level) -> float:
        """Tokens a second of all replicas."""
        return float(self.replicas * self.rates.output[level])


def front_of(
    request: ServingQuestion,
    options: Sequence[ServingOption],
    replicas: Replicas,
    chosen: GenerationCandidate,
) -> tuple[FrontPoint, ...]:
    """The front of options on the chosen instances, the soonest tokens first, by medians; with what
    is chosen, whose load may lie between those of the grid."""
    points = list[_Point]()
    for option, number in zip(options, replicas.numbers(options).tolist(), strict=True):
        for load in range(replicas.grid.concurrency.shape[1]):
            rates = replicas.grid.take((np.array(number), np.array(load)))
            if not np.isnan(rates.tpot[Level.MEDIAN]):
                points.append(_Point(option, rates, chosen.spec.count * option.placement.replicas))
    points.sort(key=lambda point: (point.rates.tpot[Level.MEDIAN], -point.output(Level.MEDIAN)))
    front, most = list[FrontPoint](), 0.0
    for point in points:
        output = point.output(Level.MEDIAN)
        if output > most:
            most = output
            front.append(_record(request, point, chosen.spec.total_usd_per_hour))
    return with_chosen(front, chosen)


def _record(request: ServingQuestion, point: _Point, usd: float) -> FrontPoint:
    rates = rates_record(request, point.rates, float(point.replicas))
    each = rates.output_tokens_per_second
    lower, median, upper = (usd / 3600 / rate * 1e6 for rate in (each.upper, each.median, each.lower))
    return FrontPoint(
        placement=point.option.placement,
        rates=rates,
        usd_per_million_output_tokens=Span(lower=lower, median=median, upper=upper),
        misses=_missed(request, point),
    )


def with_chosen(front: Sequence[FrontPoint], candidate: GenerationCandidate) -> tuple[FrontPoint, ...]:
    """The front with a candidate, in place of its own option at the same load."""
    chosen = FrontPoint(
        placement=candidate.placement,
        rates=candidate.rates,
        usd_per_million_output_tokens=candidate.usd_per_million_output_tokens,
        misses="",
    )
    others = [
        point
        for point in front
        if point.placement != candidate.placement
        or not isclose(point.rates.concurrency, candidate.rates.concurrency, rel_tol=1e-6)
    ]
    return tuple(sorted([*others, chosen], key=lambda point: point.rates.tpot_seconds.median))


def _missed(request: ServingQuestion, point: _Point) -> str:
    """ "limit" or "target", whichever the load misses by the bounds that count; '' for none."""
    rates, sure = point.rates, deciding_level(request)
    output = point.output(sure)
    wanted = (
        (output, request.target_output_tokens_per_second),
        (output / request.output_tokens, request.target_requests_per_second),
        (point.replicas * float(rates.concurrency), request.users),
    )
    limits = request.time_limits
    if any(rates.limited(limit, request.output_tokens)[sure] > limit.most for limit in limits):
        return "limit"
    return "target" if any(least is not None and value < least for value, least in wanted) else ""
