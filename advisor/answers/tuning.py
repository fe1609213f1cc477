"""Questions about tuning language models, answered: recommended, predicted, and the memory that a
run takes."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.answers.answer import FORMATS, Answer, Recommended, recommendation_text
from advisor.answers.cards import cards_meant
from advisor.answers.left_out import left_out
from advisor.catalog import Catalog
from advisor.domain.language import FineTuningRecommendation
from advisor.engine.decide import recommend
from advisor.engine.no_offer import unmet
from advisor.engine.relax import relaxed
from advisor.engine.tasks.tuning.memory import tuning_memory_of
from advisor.engine.tasks.tuning.task import TuningTask
from advisor.engine.tasks.tuning.words import described
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.models.language.finetuning.predictor import bundled_finetuning_predictor
from advisor.questions import settled
from advisor.questions.settled import instance_named, language_model_of, settled_tuning
from advisor.questions.values import GpuFilter
from advisor.render.document import Sources
from advisor.render.language_document import finetuning_document
from advisor.render.text import spec_lines
from advisor.render.views.memory import tuning_memory_document, tuning_memory_text
from advisor.render.views.tuning import asked_text, tuning_document
from advisor.render.views.whole import whole_text

if TYPE_CHECKING:
    from advisor.models.language.language_model import LanguageModel
    from advisor.questions.language import MemoryFinetuning, PredictFinetuning, RecommendFinetuning


def tuning_recommended(
    catalog: Catalog, question: RecommendFinetuning, *, today: date | None = None, relax: bool = True
) -> FineTuningRecommendation:
    """The instance that tunes for the least money; where none does as asked, what to relax, which
    takes longer, unless `relax` is False.

    Raises `UsageError`, `NoOfferError` (no prices at all there), and with `strict`
    `StalePriceError`.
    """
    task = _task(catalog, language_model_of(question))
    request = settled_tuning(question, task.model, catalog)
    today = today or settled.today()
    answer = recommend(task, request, today=today, strict=question.strict)
    notes = left_out(request, catalog, today, strict=question.strict)
    answer = replace(answer, warnings=(*notes, *answer.warnings))
    return relaxed(task, answer) if relax and answer.chosen is None else answer


def recommended(catalog: Catalog, question: RecommendFinetuning, *, today: date | None = None) -> Recommended:
    """The instance that tunes as the question wants it for the least money."""
    result, sources = tuning_recommended(catalog, question, today=today), _sources(catalog)
    every = question.explain_rejected
    document = partial(finetuning_document, result, sources, every_rejected=every)

    return Recommended(
        result=result,
        message_document=document,
        text=recommendation_text(result, question, partial(asked_text, result.request), document),
        no_offer=partial(unmet, result, described),
        start_file=_no_start_file,
    )


def _no_start_file(name: str) -> str:
    """What tunes is the user's own program."""
    raise UsageError(
        "{format} starts nothing that tunes a language model",
        format=name,
        field="export",
        hint=Message("take one of {formats}", formats=FORMATS),
    )


def predicted(catalog: Catalog, question: PredictFinetuning) -> Answer:
    """The rates of the question's instance; `UsageError` where it cannot tune the model."""
    task = _task(catalog, language_model_of(question))
    request = settled_tuning(question, task.model, catalog)
    name = instance_named(str(question.instance), question, catalog)
    result = task.prediction_on(request, name, today=settled.today())
    document = partial(tuning_document, result, request, _sources(catalog))
    head = spec_lines(result.candidate.spec, request, has_price=result.price is not None)
    asked = asked_text(request, result.candidate)
    return Answer(result=result, message_document=document, text=lambda: whole_text(head, asked, document()))


def memory(catalog: Catalog, question: MemoryFinetuning) -> Answer:
    """A run's memory on the GPUs of the question: those for rent, smallest first, or the named ones in
    their order."""
    task = _task(catalog, language_model_of(question))
    request = question.replace(model=task.model.name, config=None)
    result = tuning_memory_of(request, task.tuned, cards_meant(catalog, question.gpu or GpuFilter()))
    return Answer(
        result=result,
        message_document=partial(tuning_memory_document, result),
        text=partial(tuning_memory_text, result),
    )


def _sources(catalog: Catalog) -> Sources:
    """The identities of catalogue and predictor."""
    predictor = bundled_finetuning_predictor()
    return Sources(
        model_id=predictor.id,
        trained_on=predictor.trained_on,
        error_percent=None,
        catalog_as_of=catalog.as_of.isoformat(),
        catalog_sources=tuple(catalog.sources),
    )


def _task(catalog: Catalog, model: LanguageModel) -> TuningTask:
    return TuningTask(catalog, model, bundled_finetuning_predictor())
