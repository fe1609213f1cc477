"""Questions about tuning language models, answered: recommended, predicted, and the memory that a
run takes."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.answers.cards import cards_meant
from advisor.answers.language import LanguageContext
from advisor.answers.left_out import left_out
from advisor.domain.tuning import (
    FineTuningRecommendation,
    FineTuningRequest,
    TuningMemoryAnswer,
    TuningPrediction,
)
from advisor.engine.freshness import fresh_answer
from advisor.engine.language.tuning.decision import Preparations, recommend_tuning
from advisor.engine.language.tuning.single import predict_tuning, tuning_memory_of
from advisor.models.language.finetuning import bundled_finetuning_predictor
from advisor.questions import requests
from advisor.questions.language_requests import finetuning_request, language_model_of
from advisor.questions.spec_requests import instance_named
from advisor.questions.values import GpuFilter

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel
    from advisor.questions.language import MemoryFinetuning, PredictFinetuning, RecommendFinetuning


def tuning_recommended(
    context: LanguageContext, question: RecommendFinetuning, *, today: date | None = None, relax: bool = True
) -> FineTuningRecommendation:
    """The instance that tunes for the least money; where none does as asked, what to relax, which
    takes longer, unless `relax` is False.

    Raises `UsageError`, `NoOfferError` (no prices at all there), and with `strict`
    `StalePriceError`.
    """
    preparations = _preparations(context, language_model_of(question))
    request = finetuning_request(question, preparations.model, context.catalog)
    today = today or requests.today()
    answered = partial(recommend_tuning, preparations=preparations, today=today)
    answer = fresh_answer(request, answered, today) if question.strict else answered(request)
    notes = left_out(request, context.catalog, today, strict=question.strict)
    answer = replace(answer, warnings=(*context.notes, *notes, *answer.warnings))
    if answer.chosen is not None or not relax:
        return answer
    from advisor.engine.language.tuning.relaxing import tuning_relaxations  # most have an answer
    from advisor.engine.relaxed import Effort

    effort = Effort()
    ways = tuning_relaxations(answer, preparations, today=today, effort=effort)
    return replace(answer, relaxations=ways, warnings=(*answer.warnings, *effort.notes))


def tuning_predicted(context: LanguageContext, question: PredictFinetuning) -> TuningPrediction:
    """What the instance of the question does; `UsageError` where it cannot tune the model."""
    preparations = _preparations(context, language_model_of(question))
    request = finetuning_request(question, preparations.model, context.catalog)
    name = instance_named(str(question.instance), question, context.catalog)
    answer = predict_tuning(request, preparations, name, today=requests.today())
    return replace(answer, warnings=(*context.notes, *answer.warnings))


def tuning_memory_answered(context: LanguageContext, question: MemoryFinetuning) -> TuningMemoryAnswer:
    """What a run takes of the GPUs that are meant: those for rent, smallest first, or the named
    ones in the order asked."""
    catalog, model = context.catalog, language_model_of(question)
    request = FineTuningRequest(
        model=model.name,
        tokens=1,
        sequence=question.sequence,
        method=question.method,
        micro_batch=question.micro_batch,
    )
    cards = cards_meant(catalog, question.gpu or GpuFilter())
    return tuning_memory_of(request, catalog, model, bundled_finetuning_predictor(), cards)


def _preparations(context: LanguageContext, model: LanguageModel) -> Preparations:
    return Preparations(context.catalog, model, bundled_finetuning_predictor())
