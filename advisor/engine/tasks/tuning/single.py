"""Tuning on one named instance, and the memory that it takes of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import Gpu, Rejected
from advisor.domain.price_age import aged, aged_spec
from advisor.domain.tuning import TunedMemory, TuningMemoryAnswer, TuningPrediction
from advisor.engine.tasks.serving.options import Cards
from advisor.engine.tasks.serving.single import offer_named
from advisor.engine.tasks.tuning.options import (
    TuningOption,
    TuningPreparations,
    misfit_message,
    require_sequence,
    unsupported_message,
)
from advisor.engine.tasks.tuning.table import TuningTable, memory_use
from advisor.engine.tasks.tuning.words import tuning_assumptions, tuning_warnings
from advisor.errors import CANNOT_RUN, UsageError
from advisor.models.language.finetuning import FineTuning, unsupported
from advisor.questions.language import TuningQuestion

if TYPE_CHECKING:
    from advisor.models.language.finetuning import FineTuningPredictor
    from advisor.models.language.gpus import GpuFacts
    from advisor.models.language.language_model import LanguageModel

# Cards of one host that memory is computed for, until one number fits.
_COUNTS = (1, 2, 4, 8)


def predict_tuning(
    request: TuningQuestion, preparations: TuningPreparations, name: str, *, today: date
) -> TuningPrediction:
    """What the instance type `name` does. `UsageError` says why it cannot tune the model."""
    # Whoever names an instance wants to see what it does, and `calibrated` says how that is known.
    request = replace(request, allow_extrapolation=True)
    catalog, model = preparations.catalog, preparations.model
    offer, price, notes = offer_named(request, catalog, name, today)
    options: list[TuningOption] | Rejected
    if isinstance(notes, Rejected):
        options = notes
    else:
        finder = preparations.finder(request)
        finder.learn([offer])
        options = finder.options(offer, notes)
    if isinstance(options, Rejected):
        raise UsageError(
            "{name} cannot tune {model}: {why}",
            name=name,
            model=model.name,
            why=options.detail,
            field="instance",
            code=CANNOT_RUN,
        )
    chosen = TuningTable.of(options).candidate(request, 0, preparations.predictor)
    chosen = replace(chosen, spec=aged_spec(chosen.spec, today))
    return TuningPrediction(
        candidate=chosen,
        price=aged(price, today) if price else None,
        assumptions=tuning_assumptions(request, chosen),
        warnings=tuning_warnings(chosen, today),
    )


def tuning_memory_of(
    request: TuningQuestion,
    catalog: Catalog,
    model: LanguageModel,
    predictor: FineTuningPredictor,
    cards: Sequence[Gpu],
) -> TuningMemoryAnswer:
    """The memory of a run on each card, over as few of them as hold it."""
    require_sequence(request, model)
    known = Cards(catalog)
    return TuningMemoryAnswer(
        model=model.name,
        method=request.method,
        sequence=request.sequence,
        gpus=tuple(_on_card(request, model, predictor, known.of(card)) for card in cards),
    )


def _on_card(
    request: TuningQuestion, model: LanguageModel, predictor: FineTuningPredictor, card: GpuFacts
) -> TunedMemory:
    one = FineTuning(model, request.method, request.sequence, request.micro_batch, card)
    link = "nvlink" if card.nvlink_gb_s else "pcie"
    tunings = [one, *(one._replace(gpus=count, link=link) for count in _COUNTS[1:])]
    why = unsupported_message(one) if unsupported(one) else None
    for settled in [] if why else predictor.settled(tunings):
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
