"""Answers how much GPU memory a network takes, and which GPUs have that much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec

from msgspec.structs import replace

from advisor.answers.context import Answer
from advisor.answers.measuring import checked_reference
from advisor.answers.own_networks import traced_profile
from advisor.catalog import Catalog
from advisor.domain import Gpu, Precision, Task
from advisor.domain.workload import is_own_code
from advisor.errors import UsageError
from advisor.extras import install_hint
from advisor.models.performance.memory.peak import (
    MemoryAnswer,
    OnGpu,
    Question,
    WhatIf,
    gpu_peak,
    largest_batch,
)
from advisor.models.performance.memory.steps import Conditions, MemoryProfile, Optimizer, bundled_profile
from advisor.models.performance.networks import bundled_networks
from advisor.questions.fields import error_in
from advisor.questions.network import MemoryQuestion
from advisor.questions.settled import language_hint, wanted_cards
from advisor.questions.values import GpuFilter
from advisor.render.views.memory import memory_document, memory_text

_SQUARE, _TOKENS = re.compile(r"(?:3x)?([1-9][0-9]{0,5})(?:x\1)?"), re.compile(r"seq:[1-9][0-9]{0,5}")
DEFAULT_OPTIMIZER = "momentum"
# The least compute capability of cards with tensor cores, and of cards that compute bf16.
_TENSOR_CORES, _BF16 = 7.0, 8.0


def memory_of_network(catalog: Catalog, question: MemoryQuestion) -> Answer:
    """The GPU memory that a network takes, and the GPUs that it fits. Raises `UsageError` for an invalid
    question, and where a network must be traced and torch is missing or cannot; `MeasuringError` where
    tracing takes too long."""
    gpus = question.gpu or GpuFilter()
    if not gpus.names:  # the NVIDIA GPUs that the usual cloud rents whole
        whole = (catalog.gpu_of(instance) for instance in catalog.instances() if instance.gpu_fraction >= 1)
        gpus = replace(gpus, names=tuple({card.name for card in whole if card and card.vendor == "NVIDIA"}))
    meant = {(card.name, card.memory_mib) for card in wanted_cards(catalog, gpus)}
    cards = sorted(meant, key=lambda gpu: (gpu[1], gpu[0]))
    conditions = Conditions(
        task=question.task,
        batch_size=question.batch_size,
        precision=question.precision or usual_precision([catalog.cards[name] for name, _ in cards]),
        optimizer=Optimizer(question.optimizer or DEFAULT_OPTIMIZER),
        checkpointing=question.checkpointing,
        keeps_graph=question.keep_graph,
    )
    text = (question.input or "").lower()
    is_text = bool(_TOKENS.fullmatch(text)) and not is_own_code(question.network)
    pixels = question.input_size or (None if is_text else _side(question.input))
    size = text if is_text else f"3x{pixels}x{pixels}" if pixels else None
    workload = Question(
        reference=question.network,
        conditions=conditions,
        pixels=pixels,
        confidence=question.confidence,
        input=size,
    )
    try:
        if not is_own_code(question.network):
            facts = bundled_networks().find(question.network, size)
            workload = replace(workload, network=facts.name, input=facts.input)
        result = answer_memory(workload, cards)
    except UsageError as error:
        if (error.code, error.field) == ("unknown_name", "model") and (
            hint := language_hint(question.network)
        ):
            raise UsageError(hint, field="model", code=error.code) from None
        raise
    return Answer(
        result=result, message_document=partial(memory_document, result), text=partial(memory_text, result)
    )


def usual_precision(cards: Sequence[Gpu]) -> Precision:
    """The precision that people usually choose for all of the cards: mixed where they have tensor cores."""
    capabilities = [card.capability or 0.0 for card in cards]
    if max(capabilities) < _TENSOR_CORES:
        return Precision.FP32
    return Precision.BF16 if min(capabilities) >= _BF16 else Precision.AMP


def _side(text: str | None) -> int | None:
    """The side of square images in pixels that a text such as 3x384x384 names; None for no text."""
    if text is None:
        return None
    match = _SQUARE.fullmatch(text.lower())
    if not match:
        raise error_in(
            "input",
            "{field} {text} is no square image",
            text=text,
            hint="write it as 3x384x384 or 384; a text as seq:384 tokens",
        )
    return int(match.group(1))


def answer_memory(question: Question, gpus: Sequence[tuple[str, float]]) -> MemoryAnswer:
    """The memory answer for GPUs of (name, MiB). Only a network outside the memory table needs torch. Raises
    what `memory_of_network` raises."""
    changes = list(_changes(question.conditions))
    steps = list(dict.fromkeys([question.conditions.step, *(changed.step for _, changed in changes)]))
    profile = _profile(question, steps)
    peak = gpu_peak(profile, question.conditions, question.confidence)
    what_ifs = [
        WhatIf(
            change=words,
            peak=gpu_peak(profile, changed, question.confidence),
            largest_batches=_largest(profile, changed, question, gpus),
        )
        for words, changed in changes
        if changed.step in profile.steps
    ]
    largest = _largest(profile, question.conditions, question, gpus)
    on_gpus = (
        OnGpu(
            name=name,
            memory_mib=mib,
            verdict=peak.verdict(mib),
            probability=peak.probability_fits(mib),
            largest_batch=batch,
        )
        for (name, mib), batch in zip(gpus, largest, strict=True)
    )
    return MemoryAnswer(
        question=question, traced=profile.traced, peak=peak, gpus=tuple(on_gpus), what_ifs=tuple(what_ifs)
    )


def _changes(conditions: Conditions) -> Iterator[tuple[str, Conditions]]:
    """Conditions with one change each: checkpointing, no_grad or precision, and the words for the change."""
    if conditions.task is Task.TRAINING:
        words = "without checkpointing" if conditions.checkpointing else "with --checkpointing"
        yield words, replace(conditions, checkpointing=not conditions.checkpointing)
    else:
        words = "under no_grad" if conditions.keeps_graph else "without torch.no_grad()"
        yield words, replace(conditions, keeps_graph=not conditions.keeps_graph)
    other = Precision.AMP if conditions.precision is Precision.FP32 else Precision.FP32
    yield f"with --precision {other}", replace(conditions, precision=other)


def _largest(
    profile: MemoryProfile, conditions: Conditions, question: Question, gpus: Sequence[tuple[str, float]]
) -> tuple[int | None, ...]:
    return tuple(largest_batch(profile, conditions, mib, question.confidence) for _, mib in gpus)


def _profile(question: Question, steps: Sequence[str]) -> MemoryProfile:
    """The memory profile from the table; a user's network is traced here with torch instead."""
    reference = question.reference
    if not is_own_code(reference):
        return bundled_profile(reference, question.input)
    checked_reference(reference)
    if find_spec("torch") is None:
        raise UsageError(
            "tracing {network} needs torch", network=reference, field="model", hint=install_hint("sweep")
        )
    return traced_profile(reference, steps, question.pixels)
