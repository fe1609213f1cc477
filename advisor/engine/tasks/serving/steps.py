"""What one thing more would bring on the chosen instance: a smaller format, a wider split, one more
instance, a faster disk. Each is the same question, asked again with that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.domain import Rejected
from advisor.domain.generation import KvPrecision, LlmPrecision, StepKind
from advisor.domain.language import GenerationCandidate, ServingRates, ServingStep
from advisor.engine.limits import closest
from advisor.engine.tasks.serving.options import SIXTEEN_BIT, ServingOption, options_on, splits_of
from advisor.engine.tasks.serving.prepared import ServingPreparations, solved_table
from advisor.engine.tasks.serving.rates import Replicas
from advisor.engine.tasks.serving.words import shortfall
from advisor.messages import Message
from advisor.models.language.memory import can_split
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel


def steps_of(
    request: ServingQuestion, preparations: ServingPreparations, chosen: GenerationCandidate
) -> tuple[ServingStep, ...]:
    """Every step that can be thought of for the chosen candidate."""
    changes = list(_changes(chosen, preparations.model))
    found = [_way(replace(request, **fields), preparations, chosen) for *_, fields in changes]
    gives = iter(_given(request, [w for w in found if isinstance(w, ServingOption)], preparations))
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
    request: ServingQuestion, preparations: ServingPreparations, chosen: GenerationCandidate
) -> ServingOption | Rejected:
    """The one way to serve on the chosen offer that the changed request leaves."""
    catalog, model, offer = preparations.catalog, preparations.model, chosen.spec.offer
    ways = options_on(request, catalog, model, offer, chosen.notes)
    return ways if isinstance(ways, Rejected) else ways[0]


def _given(
    request: ServingQuestion, options: Sequence[ServingOption], preparations: ServingPreparations
) -> list[ServingStep]:
    """What each way does for the target and the limits, all predicted at once; kind and option are
    left open."""
    if not options:
        return []
    replicas = Replicas(request, options, preparations.predictor)
    table, found = solved_table(request, options, replicas), list[ServingStep]()
    limits = table.limits(request)
    for row in range(len(options)):
        why: Message | str = ""
        gives = None
        if all(limit.keeps[row] for limit in limits):
            gives = table.candidate(request, row, preparations.predictor)
        else:
            _, reason = closest(limits, table.usd, np.array([row]))
            why = shortfall(request, table, row, reason)
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
