"""Questions of any task, answered: what the command line, the service, page and reports share."""

from __future__ import annotations

import hashlib
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from advisor.answers.context import Context, load_context
from advisor.answers.recommending import recommended
from advisor.catalog import Catalog, load_catalog
from advisor.questions.commands import AnyCompare, AnyMemory, AnyPredict, AnyRecommend
from advisor.questions.language import MemoryFinetuning, PredictFinetuning, RecommendFinetuning
from advisor.questions.listings import Sources as AskedSources
from advisor.questions.models import Recommend
from advisor.questions.named import Compare, MemoryQuestion, Predict
from advisor.render.document import Sources, plain_document

if TYPE_CHECKING:
    from typing import TypeAlias

    from advisor.answers.comparing import Compared
    from advisor.answers.language import LanguageContext
    from advisor.answers.language_answers import (
        MemoryAnswered,
        ServingCompared,
        ServingPredicted,
        ServingRecommended,
        TuningPredicted,
        TuningRecommended,
    )
    from advisor.answers.predicting import Predicted, PredictedOnGpu
    from advisor.answers.recommending import Recommended
    from advisor.questions.language import (
        CompareGeneration,
        Generation,
        PredictGeneration,
        RecommendGeneration,
    )

    AnyRecommended: TypeAlias = Recommended | ServingRecommended | TuningRecommended
    AnyPredicted: TypeAlias = Predicted | PredictedOnGpu | ServingPredicted | TuningPredicted
    AnyCompared: TypeAlias = Compared | ServingCompared


def recommended_by(
    sources: AskedSources, question: AnyRecommend, *, today: date | None = None
) -> AnyRecommended:
    """The recommendation that a question asks for, with the data that is named, as of `today`."""
    if isinstance(question, Recommend):
        return recommended(load_context(sources), question, today=today)
    return language_recommended_in(_catalog(sources), question, today=today)


def predicted_by(sources: AskedSources, question: AnyPredict) -> AnyPredicted:
    """The prediction that a question asks for."""
    if isinstance(question, Predict):
        return predicted_in(load_context(sources), question)
    return language_predicted_in(_catalog(sources), question)


def compared_by(sources: AskedSources, question: AnyCompare) -> AnyCompared:
    """The comparison that a question asks for."""
    if isinstance(question, Compare):
        return compared_in(load_context(sources), question)
    return serving_compared_in(_catalog(sources), question)


def recommended_in(context: Context, question: AnyRecommend, *, today: date | None = None) -> AnyRecommended:
    """The recommendation in a context that is loaded already."""
    if isinstance(question, Recommend):
        return recommended(context, question, today=today)
    return language_recommended_in(context.catalog, question, today=today)


def predicted_in(context: Context, question: AnyPredict) -> AnyPredicted:
    """The prediction in a context that is loaded already."""
    if not isinstance(question, Predict):
        return language_predicted_in(context.catalog, question)
    from advisor.answers.predicting import predicted, predicted_on_gpu

    return (predicted if question.gpu is None else predicted_on_gpu)(context, question)


def compared_in(context: Context, question: AnyCompare) -> AnyCompared:
    """The comparison in a context that is loaded already."""
    if not isinstance(question, Compare):
        return serving_compared_in(context.catalog, question)
    from advisor.answers.comparing import compared

    return compared(context, question)


def memory_in(catalog: Catalog, question: AnyMemory) -> MemoryAnswered:
    """The memory that a question asks for."""
    from advisor.answers.language_answers import MemoryAnswered

    if isinstance(question, MemoryQuestion):
        from advisor.answers.memory import memory_answered
        from advisor.render.memory import memory_document, memory_text

        answer = memory_answered(catalog, question)
        return MemoryAnswered(partial(memory_document, answer), partial(memory_text, answer))
    if isinstance(question, MemoryFinetuning):
        from advisor.answers.finetuning import tuning_memory_answered
        from advisor.render.language.single import tuning_memory_document, tuning_memory_text

        tuned = tuning_memory_answered(_language_context(catalog), question)
        return MemoryAnswered(
            lambda: plain_document(tuning_memory_document(tuned)), partial(tuning_memory_text, tuned)
        )
    from advisor.answers.language import serving_memory_answered
    from advisor.render.language.single import serving_memory_document, serving_memory_text

    served = serving_memory_answered(_language_context(catalog), question)
    return MemoryAnswered(
        lambda: plain_document(serving_memory_document(served)), partial(serving_memory_text, served)
    )


def _catalog(sources: AskedSources) -> Catalog:
    return load_catalog(cny_per_usd=sources.cny_per_usd)


def language_recommended_in(
    catalog: Catalog, question: RecommendGeneration | RecommendFinetuning, *, today: date | None = None
) -> ServingRecommended | TuningRecommended:
    """The cheapest spec that serves or tunes as the question wants it."""
    from advisor.answers.language_answers import ServingRecommended, TuningRecommended

    context, every = _language_context(catalog), question.explain_rejected
    if isinstance(question, RecommendFinetuning):
        from advisor.answers.finetuning import tuning_recommended

        tuned = tuning_recommended(context, question, today=today)
        return TuningRecommended(tuned, _tuning_sources(context), every)
    from advisor.answers.language import serving_recommended
    from advisor.models.language.other_files import file_of

    answer = serving_recommended(context, question, today=today)
    return ServingRecommended(
        *(answer, _sources_of(context, question), every),
        named=question.model or "",
        config=file_of(question.config).absolute() if question.config else None,
    )


def language_predicted_in(
    catalog: Catalog, question: PredictGeneration | PredictFinetuning
) -> ServingPredicted | TuningPredicted:
    """What the instance of the question does."""
    from advisor.answers.language_answers import ServingPredicted, TuningPredicted
    from advisor.questions.language_requests import finetuning_request, generation_request, language_model_of

    context, model = _language_context(catalog), language_model_of(question)
    if isinstance(question, PredictFinetuning):
        from advisor.answers.finetuning import tuning_predicted

        request = finetuning_request(question, model, catalog)
        tuned = tuning_predicted(context, question)
        return TuningPredicted(tuned, request, _tuning_sources(context))
    from advisor.answers.language import serving_predicted

    served = serving_predicted(context, question)
    asked = generation_request(question, model, catalog)
    return ServingPredicted(served, asked, _sources_of(context, question))


def serving_compared_in(catalog: Catalog, question: CompareGeneration) -> ServingCompared:
    """The instances of the question, the baseline last where it is none of them."""
    from advisor.answers.language import serving_compared
    from advisor.answers.language_answers import ServingCompared
    from advisor.questions.language_requests import generation_request, language_model_of
    from advisor.questions.spec_requests import instance_named

    context = _language_context(catalog)
    found = serving_compared(context, question)
    first = instance_named(question.baseline or question.instance[0], question, catalog)
    names = [one.candidate.spec.offer.instance.name for one in found]
    baseline = found[names.index(first)]
    request = generation_request(question, language_model_of(question), catalog)
    return ServingCompared(found, baseline, request, _sources_of(context, question))


def _language_context(catalog: Catalog) -> LanguageContext:
    from advisor.answers.language import LanguageContext
    from advisor.models.language.serving import bundled_serving_predictor

    return LanguageContext(catalog, bundled_serving_predictor())


def _sources_of(context: LanguageContext, question: Generation | None = None) -> Sources:
    """The identities of catalogue and predictor, and how many anchors a question brings."""
    catalog, predictor = context.catalog, context.predictor
    digest = hashlib.sha256(" ".join(predictor.names).encode() + predictor.mean.tobytes())
    return Sources(
        model_id=digest.hexdigest()[:16],
        trained_on=f"published measurements of {len(predictor.models)} language models on "
        f"{len(predictor.gpus)} GPUs",
        error_percent=None,
        catalog_as_of=catalog.as_of.isoformat(),
        catalog_sources=tuple(catalog.sources),
        anchors=len(question.anchor) if question else 0,
    )


def _tuning_sources(context: LanguageContext) -> Sources:
    """The identities of catalogue and predictor of tuning rates."""
    from advisor.models.language.finetuning import bundled_finetuning_predictor

    predictor = bundled_finetuning_predictor()
    return replace(_sources_of(context), model_id=predictor.id, trained_on=predictor.trained_on)
