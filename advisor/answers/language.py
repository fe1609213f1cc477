"""Answers about language models: recommend, predict, compare and memory.

A user's measurements of endpoints (`--anchor`) condition the serving predictor before it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from advisor.answers.context import (
    FORMATS,
    Answer,
    Recommended,
    omission_notes,
    recommendation_text,
    region_notes,
    results_and_misfits,
)
from advisor.catalog import Catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain.language import (
    FineTuningRecommendation,
    GenerationRecommendation,
    ServingPrediction,
    TuningPrediction,
)
from advisor.domain.words import MADE_ON_LOAD, SIXTEEN_BIT, LlmEngine
from advisor.engine.decide import recommend
from advisor.engine.relax import relaxed
from advisor.engine.tasks.language import Cards
from advisor.engine.tasks.serving.options import kv_precision_of, serving_memory_of
from advisor.engine.tasks.serving.task import ServingTask
from advisor.engine.tasks.tuning import TuningTask
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.language.config_files import file_of
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.finetuning.predictor import bundled_finetuning_predictor
from advisor.models.language.serving import bundled_serving_predictor
from advisor.questions import settled
from advisor.questions.fields import comma_parts
from advisor.questions.language import TuningQuestion
from advisor.questions.settled import (
    draft_of,
    instance_named,
    kv_precision_for,
    language_model_of,
    owner_notes,
    settled_serving,
    settled_tuning,
    traffic_notes,
    wanted_cards,
)
from advisor.questions.values import GpuFilter
from advisor.render.document import Sources
from advisor.render.export.serving import export_serving
from advisor.render.language_document import (
    finetuning_document,
    generation_document,
    language_prediction_document,
)
from advisor.render.views.compare import (
    SERVING_COLUMNS,
    TUNING_COLUMNS,
    Misfit,
    language_comparison_document,
    language_comparison_text,
)
from advisor.render.views.memory import (
    serving_memory_document,
    serving_memory_text,
    tuning_memory_document,
    tuning_memory_text,
)
from advisor.render.views.whole import prediction_text

if TYPE_CHECKING:
    from advisor.models.language.deployments import GpuFacts
    from advisor.models.language.language_model import LanguageModel
    from advisor.questions.language import (
        CompareFinetuning,
        CompareGeneration,
        MemoryFinetuning,
        MemoryGeneration,
        PredictFinetuning,
        PredictGeneration,
        RecommendFinetuning,
        RecommendGeneration,
        ServingQuestion,
    )
    from advisor.sweeps.measure.endpoint.anchors import ServingAnchor

A = TypeVar("A", GenerationRecommendation, FineTuningRecommendation, ServingPrediction, TuningPrediction)
# Tokens of context that `memory` assumes where none are given, or fewer where the model takes fewer.
USUAL_CONTEXT = 8192
_ONE_INSTANCE = Message("several instances together may hold it: here one tunes, others are not modelled")


class _Prepared(NamedTuple):
    """A settled question with the task that answers it and the functions that write its answers; `measured`
    is added to each answer's assumptions, and `notes` to its warnings."""

    task: Any
    request: Any
    sources: Sources
    document: Callable[..., dict[str, Any]]
    notes: tuple[Message | str, ...] = ()
    measured: tuple[Message, ...] = ()

    def with_notes(self, answer: A) -> A:
        """The answer with the assumptions and warnings that the question itself brings."""
        return replace(
            answer,
            assumptions=(*self.measured, *answer.assumptions),
            warnings=(*self.notes, *answer.warnings),
        )


def _prepared(catalog: Catalog, question: ServingQuestion | TuningQuestion) -> _Prepared:
    if not isinstance(question, TuningQuestion):
        return _prepared_serving(catalog, question)
    model, predictor = language_model_of(question), bundled_finetuning_predictor()
    return _Prepared(
        TuningTask(catalog, model, predictor),
        settled_tuning(question, model, catalog),
        Sources(catalog=catalog, model_id=predictor.id, trained_on=predictor.trained_on),
        finetuning_document,
        notes=tuple(owner_notes(question)),
    )


def _prepared_serving(catalog: Catalog, question: ServingQuestion) -> _Prepared:
    predictor = bundled_serving_predictor()
    digest = hashlib.sha256(" ".join(predictor.names).encode() + predictor.mean.tobytes())
    trained_on = (
        f"published measurements of {len(predictor.models)} language models on {len(predictor.gpus)} GPUs"
    )
    model = language_model_of(question)
    request = settled_serving(question, model, catalog)
    mean = request.request_tokens
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
    anchors = _serving_anchors(catalog, question, model, request) if question.anchor else []
    observations = [observation for anchor in anchors for observation in anchor.observations]
    return _Prepared(
        ServingTask(catalog, model, predictor.conditioned(observations), draft_of(question)),
        request,
        Sources(
            catalog=catalog,
            model_id=digest.hexdigest()[:16],
            trained_on=trained_on,
            anchors=len(question.anchor),
        ),
        generation_document,
        notes=(
            *owner_notes(question),
            *traffic_notes(question, model),
            *_missing_checkpoint_notes(question),
            *(why for anchor in anchors for why in anchor.refused),
        ),
        measured=tuple(line for anchor in anchors for line in _anchor_assumptions(anchor)),
    )


def _missing_checkpoint_notes(question: ServingQuestion) -> Iterator[Message]:
    """A note where no checkpoint is known in the wanted format, and no engine converts to it on load."""
    format = question.precision
    if question.config or format in (None, *SIXTEEN_BIT, *MADE_ON_LOAD):
        return
    if not bundled_language_models().weights_in(question.model, format).known:
        name = "GGUF (Q4_K_M)" if question.engine is LlmEngine.LLAMA_CPP else str(format)
        yield Message("needs a checkpoint in {format}; none is known here", format=name)


def serving_recommended(
    catalog: Catalog, question: RecommendGeneration, *, today: date | None = None
) -> GenerationRecommendation:
    """The cheapest spec that serves as the question wants, without the limits to relax where none does:
    finding them takes longer. Raises `UsageError`, `NoIntervalError`, `NoOfferError` (no prices at all
    there), and with `strict` `StalePriceError`."""
    answer: GenerationRecommendation = _recommended(_prepared_serving(catalog, question), question, today)
    return answer


def _recommended(prepared: _Prepared, question: ServingQuestion | TuningQuestion, today: date | None) -> Any:
    today = today or settled.today()
    answer = recommend(prepared.task, prepared.request, today=today, strict=question.strict)
    notes = omission_notes(prepared.request, prepared.task.catalog, today, strict=question.strict)
    if answer.chosen is not None:
        notes = (*notes, *prepared.task.notes(prepared.request, answer.chosen))
    elif isinstance(question, TuningQuestion) and "gpu_memory" in answer.rejected_by_reason:
        notes = (*notes, _ONE_INSTANCE)
    places = region_notes(prepared.request, prepared.task.catalog)
    answer = replace(answer, assumptions=(*places, *answer.assumptions))
    return prepared._replace(notes=(*prepared.notes, *notes)).with_notes(answer)


def recommended(
    catalog: Catalog, question: RecommendGeneration | RecommendFinetuning, *, today: date | None = None
) -> Recommended:
    """The cheapest spec that serves the model, or the instance that tunes it for the least money."""
    prepared = _prepared(catalog, question)
    result = _recommended(prepared, question, today)
    if result.chosen is None:
        result = relaxed(prepared.task, result)
    document = partial(prepared.document, result, prepared.sources, every_rejected=question.explain_rejected)
    return Recommended(
        result=result,
        message_document=document,
        text=recommendation_text(question, document),
        start_file=partial(_start_file, result, question),
    )


def _start_file(result: Any, question: RecommendGeneration | RecommendFinetuning, name: str) -> str:
    if isinstance(question, TuningQuestion):  # what tunes is the user's own program
        raise UsageError(
            "{format} starts nothing that tunes a language model",
            format=name,
            field="export",
            hint=Message("take one of {formats}", formats=FORMATS),
        )
    config = file_of(question.config).absolute() if question.config else None
    request, draft = result.request, draft_of(question)
    if draft and draft.model:
        request = replace(request, draft_model=draft.model.name)
    return export_serving(result.chosen, request, name, config=config)


def predicted(catalog: Catalog, question: PredictGeneration | PredictFinetuning) -> Answer:
    """The rates of the question's instance; `UsageError` where it cannot serve or tune the model."""
    prepared = _prepared(catalog, question)
    result = _predicted(prepared, instance_named(str(question.instance), question, catalog))
    document = partial(language_prediction_document, result, prepared.request, prepared.sources)
    return Answer(result=result, message_document=document, text=lambda: prediction_text(document()))


def _predicted(prepared: _Prepared, name: str) -> Any:
    return prepared.with_notes(prepared.task.prediction_on(prepared.request, name, today=settled.today()))


def compared(catalog: Catalog, question: CompareGeneration | CompareFinetuning) -> Answer:
    """The instances of the question in its order, then its baseline if that is another one, for each language
    model and method in one table."""
    models = dict.fromkeys(comma_parts(question.model) or [question.model])
    methods = dict.fromkeys(question.methods) if isinstance(question, TuningQuestion) else {}
    pairs = list(product(models, [{"method": method} for method in methods] or [{}]))
    varied = [name for name, known in (("model", models), ("method", methods)) if len(known) > 1]
    first = question.baseline or question.instance[0]
    names = [instance_named(name, question, catalog) for name in (*question.instance, first)]
    documents, rows, results, misfits = list[dict[str, Any]](), list[Any](), list[list[Any]](), list[Misfit]()
    for model, way in pairs:
        prepared = _prepared(catalog, question.replace(model=model, **way))
        request, on = prepared.request, partial(_predicted, prepared)
        may_be_none = len(results) + 1 < len(pairs) or any(results)
        known, lacking = results_and_misfits(catalog, question, names, on, may_be_none=may_be_none)
        if "method" in varied:
            whys = [Message("method {method}: {why}", why=each.why, **way) for each in lacking]
            lacking = [each._replace(why=why) for each, why in zip(lacking, whys, strict=True)]
        results.append(list(known.values()))
        label = ", ".join(str(getattr(request, name)) for name in varied)
        misfits += [each._replace(way=label) for each in lacking]
        document = language_comparison_document(results[-1], names[-1], request, prepared.sources, lacking)
        rows += [{**row, "way": label} for row in document["rows"]]
        documents.append(document)
    whole, requests = documents[0], [each["request"] for each in documents]
    asked = {**requests[0], "model": ", ".join(dict.fromkeys(each["model"] for each in requests))}
    shown = {**whole, "request": asked, "rows": rows}
    if varied:
        own = {
            part: [{"model": each["request"]["model"], **row} for each in documents for row in each[part]]
            for part in ("rows", "cannot")
        }
        whole = {**whole, "requests": requests, **own}
    known_columns = TUNING_COLUMNS if isinstance(question, TuningQuestion) else SERVING_COLUMNS
    of_ways = {"model": "model", **({"method": "tuning.method"} if methods else {})} if varied else {}
    return Answer(
        result=results if varied else results[0],
        message_document=lambda: whole,
        text=lambda: language_comparison_text(shown, request, misfits, ", ".join(varied)),
        notes=[each.why for each in misfits],
        columns={**of_ways, **known_columns},
    )


def memory(catalog: Catalog, question: MemoryGeneration | MemoryFinetuning) -> Answer:
    """The memory of a served model, or of a tuning run, on the GPUs that the question names in their order,
    else on those for rent, smallest first."""
    model, cards = language_model_of(question), wanted_cards(catalog, question.gpu or GpuFilter())
    if isinstance(question, TuningQuestion):
        task = TuningTask(catalog, model, bundled_finetuning_predictor())
        run_memory = task.memory(question.replace(model=model.name, config=None), cards)
        return Answer(
            result=run_memory,
            message_document=partial(tuning_memory_document, run_memory),
            text=partial(tuning_memory_text, run_memory),
        )
    tokens = question.context_tokens or min(USUAL_CONTEXT, model.max_context or USUAL_CONTEXT)
    request = question.replace(
        model=model.name,
        config=None,
        input_tokens=max(1, tokens - 1),
        output_tokens=1,
        context_tokens=tokens,
        kv_precision=kv_precision_for(question, model),
    )
    result = serving_memory_of(request, catalog, model, cards)
    return Answer(
        result=result,
        message_document=partial(serving_memory_document, result),
        text=partial(serving_memory_text, result),
    )


def _serving_anchors(
    catalog: Catalog, question: ServingQuestion, model: LanguageModel, request: ServingQuestion
) -> list[ServingAnchor]:
    from advisor.sweeps.measure.endpoint.anchors import read_serving_anchor  # few have measured

    known, cards = bundled_language_models(), Cards(catalog)
    precision = request.precision or model.own_precision

    def model_of(name: str) -> LanguageModel:
        return model if name == model.name else known.find(name)

    def gpu_of(name: str) -> GpuFacts:
        return cards.of(sheet_of(name, catalog.cards))

    return [
        read_serving_anchor(
            path, model_of, gpu_of, precision=precision, kv_precision=kv_precision_of(request, precision)
        )
        for path in question.anchor
    ]


def _anchor_assumptions(anchor: ServingAnchor) -> Iterator[Message]:
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
