"""GPU memory of a served language model, before any GPU is rented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.catalog import Catalog
from advisor.domain import Gpu
from advisor.domain.language import ServingMemoryAnswer, SplitMemory
from advisor.engine.tasks.serving.options import OptionFinder, ServedModel, kv_precision_of, require_possible
from advisor.messages import Message
from advisor.models.language.memory import kv_bytes_per_token, weight_gib
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.models.language.deployments import GpuFacts
    from advisor.models.language.language_model import LanguageModel


def serving_memory_of(
    request: ServingQuestion, catalog: Catalog, model: LanguageModel, cards: Sequence[Gpu]
) -> ServingMemoryAnswer:
    """The memory of the request's longest sequence on each card, split as is asked for, or over as
    few cards as hold it."""
    require_possible(request, model)
    served = ServedModel(catalog, model)
    finder = OptionFinder(request, served)
    precision = finder.usual_precision
    kv_precision = kv_precision_of(request, precision)
    return ServingMemoryAnswer(
        model=model.name,
        precision=precision,
        kv_precision=kv_precision,
        engine=request.engine,
        context_tokens=request.longest_tokens,
        weights_gib=weight_gib(model, precision, request.engine),
        kv_bytes_per_token=kv_bytes_per_token(model, kv_precision),
        gpus=tuple(_on_card(finder, card.name, served.cards.of(card)) for card in cards),
    )


def _on_card(finder: OptionFinder, name: str, card: GpuFacts) -> SplitMemory:
    """The memory on one kind of card, on as many as hold it: a desk may have more of them than any
    instance that is listed."""
    precision = finder.precision_on(card)
    split, use = 1, None
    why: Message | str = ""
    if isinstance(precision, Message):
        why = precision
    else:
        fits = finder.fits(card, precision)
        split, use = next(((split, use) for split, (_, use) in fits.items() if use), (max(fits), None))
        why = "" if use else finder.misfit(card, precision, split)[1]
    return SplitMemory(
        gpu=name,
        gpu_memory_gib=card.memory_gib,
        precision=finder.usual_precision if isinstance(precision, Message) else precision,
        tensor_parallel=split,
        use=use,
        why_not=why,
    )
