"""What a language model takes of GPUs, before any is rented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.catalog import Catalog, used_gpus
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
from advisor.models.language.memory import kv_bytes_per_token, weight_gib

if TYPE_CHECKING:
    from advisor.models.language.gpus import GpuFacts
    from advisor.models.language.language_model import LanguageModel


def serving_memory_of(
    request: GenerationRequest, catalog: Catalog, model: LanguageModel, cards: Sequence[Gpu]
) -> ServingMemoryAnswer:
    """The memory of the request's longest sequence on each card, split as is asked for, or over as
    few cards as hold it."""
    require_possible(request, model)
    finder, known = Finder(request, catalog, model), Cards(catalog)
    most = _most_in_an_instance(catalog)
    precision, kv_precision = (
        finder.usual_precision,
        kv_precision_of(request, finder.usual_precision),
    )
    return ServingMemoryAnswer(
        model=model.name,
        precision=precision,
        kv_precision=kv_precision,
        engine=request.engine,
        context_tokens=request.longest_tokens,
        weights_gib=weight_gib(model, precision, request.engine),
        kv_bytes_per_token=kv_bytes_per_token(model, kv_precision),
        gpus=tuple(
            _on_card(finder, card, known.of(card), most.get(card.name, 1)) for card in cards
        ),
    )


def _on_card(finder: Finder, card: Gpu, facts: GpuFacts, most: int) -> SplitMemory:
    """The memory on one kind of card, of which an instance has `most`."""
    format_ = finder.precision_on(facts)

    def row(split: int, use: GpuMemoryUse | None, why: Message | str = "") -> SplitMemory:
        precision = finder.usual_precision if isinstance(format_, Message) else format_
        return SplitMemory(
            gpu=card.name, gpu_memory_gib=facts.memory_gib, precision=precision,
            tensor_parallel=split, use=use, why_not=why,
        )  # fmt: skip

    if isinstance(format_, Message):
        return row(1, None, format_)
    every = finder.memories(facts, format_)
    memories = {split: one for split, one in every.items() if split <= most}
    if not memories:
        return row(min(every), None, Message("no instance has more than {most} of them", most=most))
    for split, memory in memories.items():
        use = finder.use_of(memory)
        if use is not None:
            return row(split, use)
    _, why = finder.misfit(memories, facts)
    return row(max(memories), None, why)


def _most_in_an_instance(catalog: Catalog) -> dict[str, int]:
    """GPU -> how many of it the largest instance has."""
    found: dict[str, int] = {}
    for instance in catalog.instances("any"):
        name = instance.gpu_name or ""
        found[name] = max(found.get(name, 1), used_gpus(instance))
    return found
