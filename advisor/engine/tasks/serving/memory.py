"""What a language model takes of GPUs, before any is rented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.catalog import Catalog
from advisor.domain import Gpu
from advisor.domain.language import GpuMemoryUse, ServingMemoryAnswer, SplitMemory
from advisor.engine.tasks.serving.options import Cards, OptionFinder, kv_precision_of
from advisor.engine.tasks.serving.prepared import require_possible
from advisor.messages import Message
from advisor.models.language.memory import kv_bytes_per_token, weight_gib
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.models.language.gpus import GpuFacts
    from advisor.models.language.language_model import LanguageModel


def serving_memory_of(
    request: ServingQuestion, catalog: Catalog, model: LanguageModel, cards: Sequence[Gpu]
) -> ServingMemoryAnswer:
    """The memory of the request's longest sequence on each card, split as is asked for, or over as
    few cards as hold it."""
    require_possible(request, model)
    finder, known = OptionFinder(request, catalog, model), Cards(catalog)
    precision, kv_precision = (finder.usual_precision, kv_precision_of(request, finder.usual_precision))
    return ServingMemoryAnswer(
        model=model.name,
        precision=precision,
        kv_precision=kv_precision,
        engine=request.engine,
        context_tokens=request.longest_tokens,
        weights_gib=weight_gib(model, precision, request.engine),
        kv_bytes_per_token=kv_bytes_per_token(model, kv_precision),
        gpus=tuple(_on_card(finder, card, known.of(card)) for card in cards),
    )


def _on_card(finder: OptionFinder, card: Gpu, facts: GpuFacts) -> SplitMemory:
    """The memory on one kind of card, on as many as hold it: a desk may have more of them than any
    instance that is listed."""
    format_ = finder.precision_on(facts)

    def row(split: int, use: GpuMemoryUse | None, why: Message | str = "") -> SplitMemory:
        precision = finder.usual_precision if isinstance(format_, Message) else format_
        return SplitMemory(
            gpu=card.name,
            gpu_memory_gib=facts.memory_gib,
            precision=precision,
            tensor_parallel=split,
            use=use,
            why_not=why,
        )

    if isinstance(format_, Message):
        return row(1, None, format_)
    memories = finder.memories(facts, format_)
    for split, memory in memories.items():
        use = finder.use_of(memory)
        if use is not None:
            return row(split, use)
    _, why = finder.misfit(memories, facts)
    return row(max(memories), None, why)
