"""Questions of any task, answered: what the command line, the service, its page and reports share.

Each answer has the methods of the answers about networks (`Recommended`, `Predicted`, ..), so that
none of those who show it asks what it is about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.answers.context import Context, load_context
from advisor.answers.recommending import FORMATS, recommended
from advisor.catalog import Catalog, load_catalog
from advisor.engine import no_offer
from advisor.errors import NoOfferError
from advisor.messages import Message
from advisor.questions.commands import AnyCompare, AnyMemory, AnyPredict, AnyRecommend
from advisor.questions.models import Compare, MemoryQuestion, Predict, Recommend
from advisor.questions.models import Sources as AskedSources
from advisor.render.document import Sources, document_yaml, plain_document

if TYPE_CHECKING:
    from advisor.answers.comparing import Compared
    from advisor.answers.language import LanguageContext
    from advisor.answers.predicting import Predicted, PredictedOnGpu
    from advisor.answers.recommending import Recommended
    from advisor.domain.language import (
        GenerationCandidate,
        GenerationRecommendation,
        GenerationRequest,
        ServingPrediction,
    )
    from advisor.questions.language import (
        CompareGeneration,
        PredictGeneration,
        RecommendGeneration,
    )


def no_offer_of(found: AnyRecommended) -> Message | str:
    """What is told where nothing answers."""
    if isinstance(found, ServingRecommended):
        from advisor.engine.language.no_offer import no_serving_offer

        return no_serving_offer(found.answer)
    return no_offer(found.answer)


class ServingRecommended(NamedTuple):
    """A recommendation about serving a language model."""

    answer: GenerationRecommendation
    sources: Sources
    every_rejected: bool = False

    @property
    def chosen(self) -> GenerationCandidate | None:
        """The recommended spec."""
        return self.answer.chosen

    def document(self) -> dict[str, Any]:
        """`advisor.recommendation/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages, for those who speak another language."""
        from advisor.render.language.document import generation_document

        return generation_document(self.answer, self.sources, every_rejected=self.every_rejected)

    def text(self, specs: int | None = None) -> str:
        """For a terminal, with so many specs where a number is asked for."""
        from advisor.render.language.text import generation_text

        return generation_text(
            self.answer, self.sources, all_rejected=self.every_rejected, specs=specs
        )

    def written(self, name: str) -> str:
        """The answer in one of `recommending.FORMATS`, or the file that starts its spec."""
        if name in FORMATS:
            return _written(self.document(), name)
        from advisor.render.exporting.serving import export_serving

        if self.answer.chosen is None:
            raise NoOfferError(no_offer_of(self))
        return export_serving(self.answer.chosen, self.answer.request, name)


def _written(document: dict[str, Any], name: str) -> str:
    from advisor.render.language.tables import language_csv, language_markdown

    if name == "json":
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    writers = {"yaml": document_yaml, "csv": language_csv, "md": language_markdown}
    return writers[name](document)


class ServingPredicted(NamedTuple):
    """What one instance that serves a language model does."""

    prediction: ServingPrediction
    request: GenerationRequest
    sources: Sources

    def document(self) -> dict[str, Any]:
        """`advisor.serving-prediction/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages."""
        from advisor.render.language.single import prediction_document

        return prediction_document(self.prediction, self.request, self.sources)

    def text(self) -> str:
        """For a terminal."""
        from advisor.render.language.text import prediction_text

        return prediction_text(self.prediction, self.request, self.sources)


class ServingCompared(NamedTuple):
    """Instances that serve a language model, and the one that counts as 1."""

    predictions: Sequence[ServingPrediction]
    baseline: ServingPrediction
    request: GenerationRequest
    sources: Sources

    def flat_rows(self) -> list[dict[str, Any]]:
        """One flat record an instance."""
        from advisor.render.language.single import comparison_rows

        return comparison_rows(self.predictions, self.baseline)

    def columns(self) -> Sequence[str]:
        """Of a table of them."""
        from advisor.render.language.single import COLUMNS

        return COLUMNS

    def document(self) -> dict[str, Any]:
        """`advisor.serving-comparison/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages."""
        from advisor.render.language.single import comparison_document

        return comparison_document(self.predictions, self.baseline, self.request, self.sources)

    def text(self) -> str:
        """A table for a terminal."""
        from advisor.render.language.single import comparison_text

        return comparison_text(self.predictions, self.baseline, self.request)


class MemoryAnswered(NamedTuple):
    """The GPU memory that something takes, in what it can be written."""

    document: Callable[[], dict[str, Any]]
    text: Callable[[], str]


if TYPE_CHECKING:
    AnyRecommended = Recommended | ServingRecommended
    AnyPredicted = Predicted | PredictedOnGpu | ServingPredicted
    AnyCompared = Compared | ServingCompared


def recommended_by(
    sources: AskedSources, question: AnyRecommend, *, today: date | None = None
) -> AnyRecommended:
    """The recommendation that a question asks for, with the data that is named, as of `today`."""
    if isinstance(question, Recommend):
        return recommended(load_context(sources), question, today=today)
    return serving_recommended_in(_catalog(sources), question, today=today)


def predicted_by(sources: AskedSources, question: AnyPredict) -> AnyPredicted:
    """The prediction that a question asks for."""
    if isinstance(question, Predict):
        return predicted_in(load_context(sources), question)
    return serving_predicted_in(_catalog(sources), question)


def compared_by(sources: AskedSources, question: AnyCompare) -> AnyCompared:
    """The comparison that a question asks for."""
    if isinstance(question, Compare):
        return compared_in(load_context(sources), question)
    return serving_compared_in(_catalog(sources), question)


def recommended_in(
    context: Context, question: AnyRecommend, *, today: date | None = None
) -> AnyRecommended:
    """The recommendation in a context that is loaded already."""
    if isinstance(question, Recommend):
        return recommended(context, question, today=today)
    return serving_recommended_in(context.catalog, question, today=today)


def predicted_in(context: Context, question: AnyPredict) -> AnyPredicted:
    """The prediction in a context that is loaded already."""
    if not isinstance(question, Predict):
        return serving_predicted_in(context.catalog, question)
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
    if isinstance(question, MemoryQuestion):
        from advisor.answers.memory import memory_answered
        from advisor.render.memory import memory_document, memory_text

        answer = memory_answered(catalog, question)
        return MemoryAnswered(partial(memory_document, answer), partial(memory_text, answer))
    from advisor.answers.language import serving_memory_answered
    from advisor.render.language.single import serving_memory_document, serving_memory_text

    served = serving_memory_answered(_language_context(catalog), question)
    return MemoryAnswered(
        lambda: plain_document(serving_memory_document(served)),
        partial(serving_memory_text, served),
    )


def _catalog(sources: AskedSources) -> Catalog:
    return load_catalog(cny_per_usd=sources.cny_per_usd)


def serving_recommended_in(
    catalog: Catalog, question: RecommendGeneration, *, today: date | None = None
) -> ServingRecommended:
    """The cheapest spec that serves as the question wants it."""
    from advisor.answers.language import serving_recommended

    context = _language_context(catalog)
    answer = serving_recommended(context, question, today=today)
    return ServingRecommended(answer, _sources_of(context), question.explain_rejected)


def serving_predicted_in(catalog: Catalog, question: PredictGeneration) -> ServingPredicted:
    """What the instance of the question does."""
    from advisor.answers.language import serving_predicted

    context = _language_context(catalog)
    prediction = serving_predicted(context, question)
    return ServingPredicted(prediction, _request(catalog, question), _sources_of(context))


def serving_compared_in(catalog: Catalog, question: CompareGeneration) -> ServingCompared:
    """The instances of the question, the baseline last where it is none of them."""
    from advisor.answers.language import serving_compared
    from advisor.questions.requests import instance_named

    context = _language_context(catalog)
    found = serving_compared(context, question)
    first = instance_named(question.baseline or question.instance[0], question, catalog)
    names = [one.candidate.spec.offer.instance.name for one in found]
    baseline = found[names.index(first)]
    return ServingCompared(found, baseline, _request(catalog, question), _sources_of(context))


def _request(
    catalog: Catalog, question: PredictGeneration | CompareGeneration
) -> GenerationRequest:
    from advisor.questions.language_requests import generation_request, language_model_of

    return generation_request(question, language_model_of(question), catalog)


def _language_context(catalog: Catalog) -> LanguageContext:
    from advisor.answers.language import LanguageContext
    from models.language.serving import bundled_serving_predictor

    return LanguageContext(catalog, bundled_serving_predictor())


def _sources_of(context: LanguageContext) -> Sources:
    """The identities of catalogue and predictor; an anchor makes another predictor."""
    import hashlib

    catalog, predictor = context.catalog, context.predictor
    digest = hashlib.sha256(" ".join(predictor.names).encode() + predictor.mean.tobytes())
    return Sources(
        model_id=digest.hexdigest()[:16],
        trained_on=f"published measurements of {len(predictor.models)} language models on "
        f"{len(predictor.gpus)} GPUs",
        error_percent=None,
        catalog_as_of=catalog.as_of.isoformat(),
        catalog_sources=tuple(catalog.sources),
    )
