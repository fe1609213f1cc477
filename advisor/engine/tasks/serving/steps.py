"""The gain of one step on the chosen instance: a smaller format, a wider split, one more instance,
a faster disk. Each is the same question, asked again with that change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from advisor.domain import Offer, Rejected
from advisor.domain.language import GenerationCandidate, ServingRates, ServingStep
from advisor.domain.words import KvPrecision, LlmPrecision, StepKind
from advisor.engine.tasks.serving.options import (
    SIXTEEN_BIT,
    OptionFinder,
    ServedModel,
    ServingOption,
    splits_of,
)
from advisor.messages import Message
from advisor.models.language.memory import can_split
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel


# What each of some options does, or why it does not answer.
Given = Callable[[list[ServingOption]], Iterable[tuple[GenerationCandidate | None, Message | str]]]


def steps_of(
    request: ServingQuestion, served: ServedModel, offer: Offer, chosen: GenerationCandidate, given: Given
) -> tuple[ServingStep, ...]:
    """Every step that can be thought of for the chosen candidate of an offer."""
    changes = list(_changes(chosen, served.model))
    tried = [
        OptionFinder(replace(request, **fields), served).options(offer, chosen.notes)
        for *_, fields in changes
    ]
    outcomes = iter(given([ways[0] for ways in tried if not isinstance(ways, Rejected)]))
    steps = []
    for (kind, option, _), ways in zip(changes, tried, strict=True):
        gives, why = (None, ways.detail) if isinstance(ways, Rejected) else next(outcomes)
        steps.append(ServingStep(kind=kind, option=option, gives=gives, why_not=why))
    more = chosen.spec.count + 1
    gives = _on_instances(chosen, more)
    return (*steps, ServingStep(kind=StepKind.REPLICA, option=f"--max-count {more}", gives=gives))


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
    splits = (more for more in splits_of(chosen.engine) if split < more <= gpus and can_split(model, more))
    if wider := next(splits, None):
        yield StepKind.TENSOR_PARALLEL, f"--tensor-parallel {wider}", {**kept, "tensor_parallel": wider}
    ready = chosen.ready
    sooner = ready.upper_seconds - ready.load_seconds / 2
    yield (
        StepKind.DISK,
        f"--max-ready-s {sooner:.3g}",
        {**kept, "disk": None, "max_ready_seconds": float(f"{sooner:.3g}")},
    )


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
