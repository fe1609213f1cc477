"""What one thing more would bring on the chosen instance: a smaller format, a wider split, one more
instance, a faster disk. Each is the same question, asked again with that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.domain import Rejected
from advisor.domain.generation import KvPrecision, LlmPrecision, StepKind
from advisor.domain.language import GenerationCandidate, GenerationRequest, ServingRates, ServingStep
from advisor.engine.language.prepared import ServingPreparations, solved_table
from advisor.engine.language.rates import Replicas
from advisor.engine.language.shortfalls import shortfall
from advisor.engine.language.ways import SIXTEEN_BIT, Way, splits_of, ways_on
from advisor.engine.limits import closest
from advisor.messages import Message
from advisor.models.language.memory import can_split

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel


def steps_of(
    request: GenerationRequest, preparations: ServingPreparations, chosen: GenerationCandidate
) -> tuple[ServingStep, ...]:
    """Every step that can be thought of for the chosen candidate."""
    changes = list(_changes(chosen, preparations.model))
    found = [_way(replace(request, **fields), preparations, chosen) for *_, fields in changes]
    gives = iter(_given(request, [w for w in found if isinstance(w, Way)], preparations))
    steps = [
        ServingStep(kind=kind, option=option, gives=None, why_not=way.detail)
        if isinstance(way, Rejected)
        else replace(next(gives), kind=kind, option=option)
        for (kind, option, _), way in zip(changes, found, strict=True)
    ]
    more = chosen.spec.count + 1
    one_more = ServingStep(
        kind=StepKind.REPLICA, option=f"--max-count {more}", gives=_on_instances(chosen, more)
    )
    return (*steps, one_more)


def _changes(
    chosen: GenerationCandidate, model: LanguageModel
) -> Iterator[tuple[StepKind, str, dict[str, Any]]]:
    """Each step with its option and the fields that ask for it; all else is as chosen."""
    split = chosen.placement.tensor_parallel
    kept: dict[str, Any] = {
        "precision": chosen.precision,
        "tensor_parallel": split,
        "disk": chosen.spec.disk.choice,
        "disk_types": (),
    }
    if chosen.precision in SIXTEEN_BIT:
        yield StepKind.FP8, "--precision fp8", {**kept, "precision": LlmPrecision.FP8, "disk": None}
    if chosen.kv_precision is not KvPrecision.FP8:
        yield StepKind.FP8_KV, "--kv-precision fp8", {**kept, "kv_precision": KvPrecision.FP8}
    gpus = chosen.spec.offer.instance.gpu_count
    wider = [one for one in splits_of(chosen.engine) if split < one <= gpus and can_split(model, one)]
    if wider:
        yield (
            StepKind.TENSOR_PARALLEL,
            f"--tensor-parallel {wider[0]}",
            {**kept, "tensor_parallel": wider[0]},
        )
    ready = chosen.ready
    sooner = ready.upper_seconds - ready.load_seconds / 2
    yield (
        StepKind.DISK,
        f"--max-ready-s {sooner:.3g}",
        {**kept, "disk": None, "max_ready_seconds": float(f"{sooner:.3g}")},
    )


def _way(
    request: GenerationRequest, preparations: ServingPreparations, chosen: GenerationCandidate
) -> Way | Rejected:
    """The one way to serve on the chosen offer that the changed request leaves."""
    catalog, model, offer = preparations.catalog, preparations.model, chosen.spec.offer
    ways = ways_on(request, catalog, model, offer, chosen.notes)
    return ways if isinstance(ways, Rejected) else ways[0]


def _given(
    request: GenerationRequest, ways: Sequence[Way], preparations: ServingPreparations
) -> list[ServingStep]:
    """What each way does for the target and the limits, all predicted at once; kind and option are
    left open."""
    if not ways:
        return []
    replicas = Replicas(request, ways, preparations.predictor)
    table, found = solved_table(request, ways, replicas), list[ServingStep]()
    for at, answers in enumerate(table.answering().tolist()):
        why: Message | str = ""
        if not answers:
            _, reason = closest(table.limits, table.usd, np.array([at]))
            why = shortfall(table, at, reason)
        gives = table.candidate(at, preparations.predictor) if answers else None
        found.append(ServingStep(kind=StepKind.DISK, option="", gives=gives, why_not=why))
    return found


def _on_instances(chosen: GenerationCandidate, count: int) -> GenerationCandidate:
    """The chosen one on another number of instances, each under the load that it has."""
    factor = count / chosen.spec.count
    return replace(
        chosen,
        spec=replace(chosen.spec, count=count),
        rates=_times(chosen.rates, factor),
        most=_times(chosen.most, factor),
    )


def _times(rates: ServingRates, factor: float) -> ServingRates:
    return replace(
        rates,
        concurrency=rates.concurrency * factor,
        output_tokens_per_second=rates.output_tokens_per_second.times(factor),
        requests_per_second=rates.requests_per_second.times(factor),
    )
