"""What a language model takes of GPUs, before any is rented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.catalog import Catalog
from advisor.domain import Gpu
from advisor.domain.language import (
    GenerationRequest,
    GpuMemoryUse,
    ServingMemoryAnswer,
    SplitMemory,
)
from advisor.engine.language.prepared import require_possible
from advisor.engine.language.ways import Cards, Finder, kv_precision_of
from advisor.messages import Message
from models.language.memory import kv_bytes_per_token, weight_gib

if TYPE_CHECKING:
    from models.language.language_model import LanguageModel


def serving_memory_of(
    request: GenerationRequest, catalog: Catalog, model: LanguageModel, cards: Sequence[Gpu]
) -> ServingMemoryAnswer:
    """The memory of the request's longest sequence on each card, split as is asked for, or over as
    few cards as hold it."""
    require_possible(request, model)
    finder, known = Finder(request, catalog, model), Cards(catalog)
    precision, kv_precision = (
        request.precision or model.own_precision,
        kv_precision_of(request),
    )
    return ServingMemoryAnswer(
        model=model.name,
        precision=precision,
        kv_precision=kv_precision,
        engine=request.engine,
        context_tokens=request.longest_tokens,
        weights_gib=weight_gib(model, precision, request.engine),
        kv_bytes_per_token=kv_bytes_per_token(model, kv_precision),
        gpus=tuple(_on_card(finder, known, card) for card in cards),
    )


def _on_card(finder: Finder, known: Cards, card: Gpu) -> SplitMemory:
    facts = known.of(card)

    def row(split: int, use: GpuMemoryUse | None, why: Message | str = "") -> SplitMemory:
        return SplitMemory(
            gpu=card.name, gpu_memory_gib=facts.memory_gib, tensor_parallel=split, use=use,
            why_not=why,
        )  # fmt: skip

    precision = finder.precision_on(facts)
    if isinstance(precision, Message):
        return row(1, None, precision)
    memories = finder.memories(facts, precision)
    for split, memory in memories.items():
        use = finder.use_of(memory)
        if use is not None:
            return row(split, use)
    _, why = finder.misfit(memories, facts)
    return row(max(memories), None, why)
