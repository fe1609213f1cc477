"""Details of a serving answer: latency against throughput, and what one change of a setting gains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import ceil, isclose
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from advisor.domain import Offer, Rejected, Span
from advisor.domain.language import FrontPoint, GenerationCandidate, ServingRates, ServingStep
from advisor.domain.words import SIXTEEN_BIT, KvPrecision, LlmPrecision, StepKind
from advisor.engine.columns import Level
from advisor.engine.tasks.serving.options import OptionFinder, ServedModel, ServingOption, splits_of
from advisor.engine.tasks.serving.table import (
    Rates,
    Replicas,
    ServingTable,
    deciding_level,
    rates_record,
    tails_record,
)
from advisor.messages import Message
from advisor.models.language.language_model import LanguageModel
from advisor.models.language.memory import can_split
from advisor.questions.language import ServingQuestion

# Weight formats that can replace 16 bits.
SMALLER_FORMATS = (StepKind.FP8, StepKind.INT4)


class _Point(NamedTuple):
    """An option with the number of its replicas, and their rates under one load."""

    option: ServingOption
    rates: Rates
    replicas: int

    def output(self, level: Level) -> float:
        """Output tokens per second of all replicas."""
        return float(self.replicas * self.rates.output[level])


def front_of(
    request: ServingQuestion,
    options: Sequence[ServingOption],
    replicas: Replicas,
    chosen: GenerationCandidate,
    row: ServingTable,
) -> tuple[FrontPoint, ...]:
    """The front of latency and throughput of options on the chosen instances, by medians, lowest TPOT first;
    it includes the chosen candidate (its `row`), whose load may lie between those of the grid."""
    points = list[_Point]()
    grid = replicas.grid_of(replicas.numbers(options), arrives=request.target_requests_per_second is not None)
    for number, option in enumerate(options):
        for load in range(grid.concurrency.shape[1]):
            rates = grid.take((np.array(number), np.array(load)))
            if not np.isnan(rates.tpot[Level.MEDIAN]):
                points.append(_Point(option, rates, chosen.spec.count * option.placement.batches))
    points.sort(key=lambda point: (point.rates.tpot[Level.MEDIAN], -point.output(Level.MEDIAN)))
    front, most = list[FrontPoint](), 0.0
    for point in points:
        output = point.output(Level.MEDIAN)
        if output > most:
            most = output
            front.append(_record(request, point, chosen.spec.total_usd_per_hour))
    misses = dict[str, str]()
    if not all(limit.keeps[0] for limit in row.limits):
        rates, busy = row.rates.take((np.array(0),)), chosen.spec.count * chosen.placement.batches
        misses = _missed(request, _Point(row.options[0], rates, busy))
    return with_chosen(front, chosen, misses)


def _record(request: ServingQuestion, point: _Point, usd: float) -> FrontPoint:
    rates = rates_record(request, point.rates, float(point.replicas))
    if any(limit.percentile is not None for limit in request.time_limits):
        rates = replace(rates, tails=tails_record(request, point.rates))
    each = rates.output_tokens_per_second
    lower, median, upper = (usd / 3600 / rate * 1e6 for rate in (each.upper, each.median, each.lower))
    return FrontPoint(
        placement=point.option.placement,
        rates=rates,
        usd_per_million_output_tokens=Span(lower=lower, median=median, upper=upper),
        misses=_missed(request, point),
    )


def with_chosen(
    front: Sequence[FrontPoint], candidate: GenerationCandidate, misses: Mapping[str, str]
) -> tuple[FrontPoint, ...]:
    """The front with a candidate and what it `misses`; it replaces the point of its placement at the same
    load."""
    chosen = FrontPoint(
        placement=candidate.placement,
        rates=candidate.rates,
        usd_per_million_output_tokens=candidate.usd_per_million_output_tokens,
        misses=misses,
    )
    others = [
        point
        for point in front
        if point.placement != candidate.placement
        or not isclose(point.rates.concurrency, candidate.rates.concurrency, rel_tol=1e-6)
    ]
    return tuple(sorted([*others, chosen], key=lambda point: point.rates.tpot_seconds.median))


def _missed(request: ServingQuestion, point: _Point) -> dict[str, str]:
    """The limited times and the target that a load misses: by its "median", or by its "bound" alone
    where bounds decide."""
    rates, output = point.rates, point.replicas * point.rates.output
    requests = output / request.output_tokens
    wanted = (
        (output, request.target_output_tokens_per_second),
        (requests, request.target_requests_per_second),
        # Users in flight, and those that think (Little's law).
        (point.replicas * rates.concurrency + request.think_seconds * requests, request.users),
    )
    kept = {
        limit.reason: rates.limited(limit, request.output_tokens) <= limit.most
        for limit in request.time_limits
    }
    for value, least in wanted:
        if least is not None:
            kept["target"] = value >= least
    sure = deciding_level(request)
    return {
        name: "bound" if keeps[Level.MEDIAN] else "median" for name, keeps in kept.items() if not keeps[sure]
    }


# The function that returns for each option its candidate, or why it does not answer.
Outcomes = Callable[[list[ServingOption]], Iterable[tuple[GenerationCandidate | None, Message | str]]]


def steps_of(
    request: ServingQuestion, served: ServedModel, offer: Offer, chosen: GenerationCandidate, judge: Outcomes
) -> tuple[ServingStep, ...]:
    """Single changes to the chosen candidate of an offer, each with the candidate that it gives."""
    changes = list(_changes(chosen, served.model))
    tried = [
        OptionFinder(replace(request, **fields), served, chosen.placement.nodes).options(offer, chosen.notes)
        for *_, fields in changes
    ]
    outcomes = iter(judge([ways[0] for ways in tried if not isinstance(ways, Rejected)]))
    steps = []
    for (kind, option, _), ways in zip(changes, tried, strict=True):
        gives, why = (None, ways.detail) if isinstance(ways, Rejected) else next(outcomes)
        steps.append(ServingStep(kind=kind, option=option, gives=gives, why_not=why))
    more = chosen.spec.count + chosen.placement.nodes
    factor = more / chosen.spec.count
    gives = replace(  # one instance more, each under the load that it has
        chosen,
        spec=replace(chosen.spec, count=more),
        rates=_scaled(chosen.rates, factor),
        most=_scaled(chosen.most, factor),
    )
    loads = ("users", "target_requests_per_second", "target_output_tokens_per_second")
    words = [
        f"{request.declared[name].option} {ceil(load * factor) if name == 'users' else load * factor:.6g}"
        for name in loads
        if (load := getattr(request, name)) is not None
    ]
    return (
        *steps,
        ServingStep(kind=StepKind.REPLICA, option=" ".join([*words, f"--max-count {more}"]), gives=gives),
    )


def format_fields(kind: StepKind) -> dict[str, StrEnum]:
    """The fields of a question that ask for the smaller format of a step; none of another step."""
    if kind is StepKind.FP8_KV:
        return {"kv_precision": KvPrecision.FP8}
    return {"precision": LlmPrecision(kind)} if kind in SMALLER_FORMATS else {}


def _changes(
    chosen: GenerationCandidate, model: LanguageModel
) -> Iterator[tuple[StepKind, str, dict[str, Any]]]:
    """Each step with its option and the changed fields of the request; all else is as in `chosen`."""
    split = chosen.placement.tensor_parallel if chosen.placement.ranks == 1 else None
    kept: dict[str, Any] = {
        "precision": chosen.precision,
        "tensor_parallel": split,
        "disk": chosen.spec.disk.choice,
        "disk_types": (),
    }
    for kind in SMALLER_FORMATS if chosen.precision in SIXTEEN_BIT else ():
        yield kind, f"--precision {kind}", {**kept, "precision": LlmPrecision(kind), "disk": None}
    if chosen.kv_precision is not KvPrecision.FP8:
        yield StepKind.FP8_KV, "--kv-precision fp8", {**kept, "kv_precision": KvPrecision.FP8}
    gpus = chosen.spec.offer.instance.gpu_count
    width = chosen.placement.width
    splits = (more for more in splits_of(chosen.engine) if width < more <= gpus and can_split(model, more))
    if wider := next(splits, None):
        yield StepKind.TENSOR_PARALLEL, f"--tensor-parallel {wider}", {**kept, "tensor_parallel": wider}
    ready = chosen.ready
    sooner = ready.upper_seconds - ready.load_seconds / 2
    yield (
        StepKind.DISK,
        f"--max-ready-s {sooner:.3g}",
        {**kept, "disk": None, "max_ready_seconds": float(f"{sooner:.3g}")},
    )


def _scaled(rates: ServingRates, factor: float) -> ServingRates:
    return replace(
        rates,
        concurrency=rates.concurrency * factor,
        output_tokens_per_second=rates.output_tokens_per_second.times(factor),
        requests_per_second=rates.requests_per_second.times(factor),
    )
