"""GPU memory of tuning a language model, before any GPU is rented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.domain import Gpu
from advisor.domain.language import TunedMemory, TuningMemoryAnswer
from advisor.engine.tasks.tuning.options import (
    TunedModel,
    misfit_message,
    require_possible,
    tuning_on,
    unsupported_message,
)
from advisor.engine.tasks.tuning.table import memory_use
from advisor.models.language.finetuning.predictor import unsupported
from advisor.questions.language import TuningQuestion

if TYPE_CHECKING:
    from advisor.models.language.deployments import GpuFacts

# Cards of one host that memory is computed for, until one number fits.
_COUNTS = (1, 2, 4, 8)


def tuning_memory_of(request: TuningQuestion, tuned: TunedModel, cards: Sequence[Gpu]) -> TuningMemoryAnswer:
    """The memory of a run on each card, over as few of them as hold it."""
    require_possible(request, tuned.model)
    return TuningMemoryAnswer(
        model=tuned.model.name,
        method=request.method,
        sequence=request.sequence,
        gpus=tuple(_on_card(request, tuned, tuned.cards.of(card)) for card in cards),
    )


def _on_card(request: TuningQuestion, tuned: TunedModel, card: GpuFacts) -> TunedMemory:
    link = "nvlink" if card.nvlink_gb_s else "pcie"
    tunings = [tuning_on(request, tuned, card, count, link if count > 1 else "none") for count in _COUNTS]
    why = unsupported_message(tunings[0]) if unsupported(tunings[0]) else None
    for settled in [] if why else tuned.predictor.settled(tunings):
        if settled is not None:
            tuning = settled.tuning
            return TunedMemory(
                gpu=card.name,
                gpu_memory_gib=card.memory_gib,
                gpus=tuning.gpus,
                micro_batch=int(tuning.micro_batch or 1),
                checkpointing=tuning.checkpointing != "none",
                use=memory_use(settled),
            )
    return TunedMemory(
        gpu=card.name,
        gpu_memory_gib=card.memory_gib,
        gpus=tunings[-1].gpus,
        micro_batch=request.micro_batch or 1,
        checkpointing=True,
        use=None,
        why_not=why or misfit_message(tunings[-1]),
    )
