"""Answers about language models, each in what it can be written.

They have the methods of the answers about networks (`Recommended`, `Predicted`, ..), so that none
of those who show an answer asks what it is about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.answers.recommending import FORMATS
from advisor.errors import NoOfferError, UsageError
from advisor.messages import Message
from advisor.render.document import Sources, document_yaml, plain_document

if TYPE_CHECKING:
    from advisor.domain.language import GenerationRecommendation, GenerationRequest, ServingPrediction
    from advisor.domain.tuning import FineTuningRecommendation, FineTuningRequest, TuningPrediction


class ServingRecommended(NamedTuple):
    """A recommendation about serving a language model, which was `named` so: a start file needs the
    name of its checkpoint, or its `config` and the folder of that."""

    answer: GenerationRecommendation
    sources: Sources
    every_rejected: bool = False
    named: str = ""
    config: Path | None = None

    def no_offer(self) -> Message:
        """What is told where nothing answers."""
        from advisor.engine.language.no_offer import no_serving_offer

        return no_serving_offer(self.answer)

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

        return generation_text(self.answer, self.sources, all_rejected=self.every_rejected, specs=specs)

    def written(self, name: str) -> str:
        """The answer in one of `recommending.FORMATS`, or the file that starts its spec."""
        if name in FORMATS:
            return _written(self.document(), name)
        from advisor.render.exporting.serving import export_serving

        if self.answer.chosen is None:
            raise NoOfferError(self.no_offer())
        chosen, request = self.answer.chosen, self.answer.request
        return export_serving(chosen, request, name, self.named, config=self.config)


def _written(document: dict[str, Any], name: str) -> str:
    from advisor.render.language.tables import language_csv, language_markdown

    if name == "json":
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    writers = {"yaml": document_yaml, "csv": language_csv, "md": language_markdown}
    return writers[name](document)


class TuningRecommended(NamedTuple):
    """A recommendation about fine-tuning a language model."""

    answer: FineTuningRecommendation
    sources: Sources
    every_rejected: bool = False

    def no_offer(self) -> Message:
        """What is told where nothing answers."""
        from advisor.engine.language.tuning.no_offer import no_tuning_offer

        return no_tuning_offer(self.answer)

    def document(self) -> dict[str, Any]:
        """`advisor.recommendation/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages, for those who speak another language."""
        from advisor.render.language.document import finetuning_document

        return finetuning_document(self.answer, self.sources, every_rejected=self.every_rejected)

    def text(self, specs: int | None = None) -> str:
        """For a terminal, with so many specs where a number is asked for."""
        from advisor.render.language.tuning_text import finetuning_text

        return finetuning_text(self.answer, self.sources, all_rejected=self.every_rejected, specs=specs)

    def written(self, name: str) -> str:
        """The answer in one of `recommending.FORMATS`; what tunes is the user's own program."""
        if name not in FORMATS:
            raise UsageError(
                "{format} starts nothing that tunes a language model",
                format=name,
                field="export",
                hint=Message("take one of {formats}", formats=FORMATS),
            )
        return _written(self.document(), name)


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


class TuningPredicted(NamedTuple):
    """What one instance that tunes a language model does."""

    prediction: TuningPrediction
    request: FineTuningRequest
    sources: Sources

    def document(self) -> dict[str, Any]:
        """`advisor.tuning-prediction/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages."""
        from advisor.render.language.single import tuning_document

        return tuning_document(self.prediction, self.request, self.sources)

    def text(self) -> str:
        """For a terminal."""
        from advisor.render.language.tuning_text import tuning_text

        return tuning_text(self.prediction, self.request, self.sources)


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
