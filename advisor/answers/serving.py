"""Questions about serving language models, answered: recommended, predicted, compared, and the
memory that a model takes.

A user's own measurements of endpoints (`--anchor`) condition the predictor before it answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from advisor.answers.answer import Answer, Recommended, recommendation_text
from advisor.answers.cards import cards_meant
from advisor.answers.left_out import left_out
from advisor.catalog import Catalog, load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain.language import GenerationRecommendation, ServingPrediction
from advisor.engine.decide import recommend
from advisor.engine.no_offer import unmet
from advisor.engine.relax import relaxed
from advisor.engine.tasks.language import Cards
from advisor.engine.tasks.serving.memory import serving_memory_of
from advisor.engine.tasks.serving.options import kv_precision_of
from advisor.engine.tasks.serving.task import ServingTask
from advisor.engine.tasks.serving.words import described
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.language.config_files import file_of
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.serving import bundled_serving_predictor
from advisor.questions import settled
from advisor.questions.language import ServingQuestion
from advisor.questions.settled import (
    instance_named,
    kv_precision_meant,
    language_model_of,
    settled_serving,
    traffic_notes,
)
from advisor.questions.values import GpuFilter
from advisor.render.document import Sources
from advisor.render.export.serving import export_serving
from advisor.render.language_document import generation_document
from advisor.render.text import spec_lines
from advisor.render.views.compare import SERVING_COLUMNS, serving_comparison_document, serving_comparison_text
from advisor.render.views.memory import serving_memory_document, serving_memory_text
from advisor.render.views.serving import asked_text, serving_prediction_document
from advisor.render.views.whole import whole_text

if TYPE_CHECKING:
    from advisor.models.language.deployments import GpuFacts
    from advisor.models.language.language_model import LanguageModel
    from advisor.models.language.serving import ServingPredictor
    from advisor.questions.language import (
        CompareGeneration,
        MemoryGeneration,
        PredictGeneration,
        RecommendGeneration,
        ServingQuestion,
    )
    from advisor.questions.listings import Sources as NamedSources
    from advisor.sweeps.measure.endpoint.anchors import ServingAnchor

A = TypeVar("A", GenerationRecommendation, ServingPrediction)
# Without a length `memory` tells of this one, or of the longest that the model takes.
USUAL_CONTEXT = 8192


class LanguageContext(NamedTuple):
    """The data that answers; `measured` and `notes` belong to each answer's assumptions and
    warnings."""

    catalog: Catalog
    predictor: ServingPredictor
    notes: tuple[Message | str, ...] = ()
    measured: tuple[Message, ...] = ()


def load_language_context(sources: NamedSources | None = None) -> LanguageContext:
    """The catalogue of this user, and the predictor that ships."""
    catalog = load_catalog(cny_per_usd=sources.cny_per_usd if sources else None)
    return LanguageContext(catalog, bundled_serving_predictor())


def serving_recommended(
    context: LanguageContext, question: RecommendGeneration, *, today: date | None = None, relax: bool = True
) -> GenerationRecommendation:
    """The cheapest spec that serves as the question wants it; where nothing does, what to relax,
    which takes longer, unless `relax` is False.

    Raises `UsageError`, `NoIntervalError`, `NoOfferError` (no prices at all there), and with
    `strict` `StalePriceError`.
    """
    context, model, request = _request(context, question)
    today = today or settled.today()
    task = ServingTask(context.catalog, model, context.predictor)
    answer = recommend(task, request, today=today, strict=question.strict)
    notes = left_out(request, context.catalog, today, strict=question.strict)
    answer = _with_notes(answer, context._replace(notes=(*context.notes, *notes)))
    return relaxed(task, answer) if relax and answer.chosen is None else answer


def recommended(catalog: Catalog, question: RecommendGeneration, *, today: date | None = None) -> Recommended:
    """The cheapest spec that serves as the question wants it."""
    context = LanguageContext(catalog, bundled_serving_predictor())
    result, sources = serving_recommended(context, question, today=today), sources_of(context, question)
    every = question.explain_rejected
    document = partial(generation_document, result, sources, every_rejected=every)

    return Recommended(
        result=result,
        message_document=document,
        text=recommendation_text(result, question, partial(asked_text, result.request), document),
        no_offer=partial(unmet, result, described),
        start_file=partial(_start_file, result, question),
    )


def _start_file(result: GenerationRecommendation, question: RecommendGeneration, name: str) -> str:
    assert result.chosen is not None
    # A start file needs the name of the checkpoint, or its configuration and the folder of that.
    config = file_of(question.config).absolute() if question.config else None
    return export_serving(result.chosen, result.request, name, question.model, config=config)


def predicted(catalog: Catalog, question: PredictGeneration) -> Answer:
    """The rates of the question's instance; `UsageError` where it cannot serve the model."""
    context = LanguageContext(catalog, bundled_serving_predictor())
    sources = sources_of(context, question)
    context, model, request = _request(context, question)
    name = instance_named(str(question.instance), question, catalog)
    (result,) = _predicted(context, model, request, (name,))
    document = partial(serving_prediction_document, result, request, sources)
    head = spec_lines(result.candidate.spec, request, has_price=result.price is not None)
    asked = asked_text(request, result.candidate)
    return Answer(result=result, message_document=document, text=lambda: whole_text(head, asked, document()))


def compared(catalog: Catalog, question: CompareGeneration) -> Answer:
    """The instances of the question in the order asked, then its baseline where that is another
    one."""
    context = LanguageContext(catalog, bundled_serving_predictor())
    sources = sources_of(context, question)
    context, model, request = _request(context, question)
    first = question.baseline or question.instance[0]
    names = [instance_named(name, question, catalog) for name in (*question.instance, first)]
    results = _predicted(context, model, request, tuple(dict.fromkeys(names)))
    baseline = next(result for result in results if result.candidate.spec.offer.instance.name == names[-1])
    return Answer(
        result=results,
        message_document=partial(serving_comparison_document, results, baseline, request, sources),
        text=partial(serving_comparison_text, results, baseline, request, sources),
        columns=SERVING_COLUMNS,
    )


def memory(catalog: Catalog, question: MemoryGeneration) -> Answer:
    """The model's memory on the GPUs of the question: those for rent, smallest first, or the named ones
    in their order."""
    model = language_model_of(question)
    tokens = question.context_tokens or min(USUAL_CONTEXT, model.max_context or USUAL_CONTEXT)
    request = question.replace(
        model=model.name,
        config=None,
        input_tokens=max(1, tokens - 1),
        output_tokens=1,
        context_tokens=tokens,
        kv_precision=kv_precision_meant(question, model),
    )
    cards = cards_meant(catalog, question.gpu or GpuFilter())
    result = serving_memory_of(request, catalog, model, cards)
    return Answer(
        result=result,
        message_document=partial(serving_memory_document, result),
        text=partial(serving_memory_text, result),
    )


def sources_of(context: LanguageContext, question: ServingQuestion) -> Sources:
    """The identities of catalogue and predictor, and how many anchors the question brings."""
    catalog, predictor = context.catalog, context.predictor
    digest = hashlib.sha256(" ".join(predictor.names).encode() + predictor.mean.tobytes())
    return Sources(
        model_id=digest.hexdigest()[:16],
        trained_on=f"published measurements of {len(predictor.models)} language models on "
        f"{len(predictor.gpus)} GPUs",
        error_percent=None,
        catalog_as_of=catalog.as_of.isoformat(),
        catalog_sources=tuple(catalog.sources),
        anchors=len(question.anchor),
    )


def _predicted(
    context: LanguageContext, model: LanguageModel, request: ServingQuestion, names: tuple[str, ...]
) -> list[ServingPrediction]:
    task, today = ServingTask(context.catalog, model, context.predictor), settled.today()
    return [_with_notes(task.prediction_on(request, name, today=today), context) for name in names]


def _with_notes(answer: A, context: LanguageContext) -> A:
    return replace(
        answer,
        assumptions=(*context.measured, *answer.assumptions),
        warnings=(*context.notes, *answer.warnings),
    )


def _request(
    context: LanguageContext, question: RecommendGeneration | PredictGeneration | CompareGeneration
) -> tuple[LanguageContext, LanguageModel, ServingQuestion]:
    """The request about a model, and the context once the question's anchors are known."""
    model = language_model_of(question)
    request = settled_serving(question, model, context.catalog)
    mean = request.input_tokens + request.output_tokens
    if request.context_tokens is not None and request.context_tokens < mean:
        raise UsageError(
            "a mean request has {mean:,.0f} tokens, and {model} takes {most:,}",
            mean=mean,
            model=model.name,
            most=request.context_tokens,
            field="input_tokens",
            hint=Message(
                "ask for shorter requests: {input} and {output}",
                input=FieldName("input_tokens"),
                output=FieldName("output_tokens"),
            ),
        )
    context = context._replace(notes=(*context.notes, *traffic_notes(question, model)))
    return _anchored(context, question, model, request), model, request


def _anchored(
    context: LanguageContext, question: ServingQuestion, model: LanguageModel, request: ServingQuestion
) -> LanguageContext:
    """The context whose predictor knows what the question's anchors measured."""
    if not question.anchor:
        return context
    from advisor.sweeps.measure.endpoint.anchors import read_serving_anchor  # few have measured

    known, cards = bundled_language_models(), Cards(context.catalog)
    precision = request.precision or model.own_precision

    def model_of(name: str) -> LanguageModel:
        return model if name == model.name else known.find(name)

    def gpu_of(name: str) -> GpuFacts:
        return cards.of(sheet_of(name, context.catalog.cards))

    anchors = [
        read_serving_anchor(
            path, model_of, gpu_of, precision=precision, kv_precision=kv_precision_of(request, precision)
        )
        for path in question.anchor
    ]
    observations = [observation for anchor in anchors for observation in anchor.observations]
    return context._replace(
        predictor=context.predictor.conditioned(observations),
        notes=(*context.notes, *(why for anchor in anchors for why in anchor.refused)),
        measured=(*context.measured, *(line for anchor in anchors for line in _measured(anchor))),
    )


def _measured(anchor: ServingAnchor) -> Iterator[Message]:
    deployment = anchor.observations[0].deployment
    yield Message(
        "your measurement of {model} on {gpu} counts ({file}, {loads} loads)",
        model=deployment.model.name,
        gpu=deployment.gpu.name,
        file=anchor.path.name,
        loads=len(anchor.observations),
    )
    for tail in anchor.tails:
        yield Message(
            "measured on {gpu} with {load}: p99 of TTFT {ttft:.3g} ms, of TPOT {tpot:.3g} ms",
            gpu=deployment.gpu.name,
            load=str(tail.load),
            ttft=1000 * tail.ttft_p99_seconds,
            tpot=1000 * tail.tpot_p99_seconds,
        )
