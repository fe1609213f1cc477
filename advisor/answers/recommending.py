"""The cheapest spec that meets a target, and what to relax where nothing does."""

from __future__ import annotations

import json
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.context import Context, with_anchors
from advisor.answers.left_out import left_out
from advisor.domain import Recommendation
from advisor.engine import Preparations, recommend
from advisor.engine.freshness import fresh_answer
from advisor.engine.other_settings import settings_of_candidate
from advisor.errors import NoOfferError
from advisor.messages import Message
from advisor.questions import requests
from advisor.questions.models import Recommend
from advisor.render.document import Sources, plain_document, recommendation_document

if TYPE_CHECKING:
    from advisor.answers.explaining import Explained

# Formats of the whole answer; those of `render.exporting` are files that start its spec.
FORMATS = ("json", "yaml", "csv", "md")


class Recommended(NamedTuple):
    """An answer with its context, and what was prepared for questions of the same workload."""

    answer: Recommendation
    context: Context
    preparations: Preparations
    explained: Explained | None = None
    every_rejected: bool = False

    @property
    def sources(self) -> Sources:
        """The identities of catalogue and predictor."""
        return self.context.sources()

    def no_offer(self) -> Message:
        """What is told where nothing answers."""
        from advisor.engine.no_offer import no_offer  # most questions have an answer

        return no_offer(self.answer)

    def document(self) -> dict[str, Any]:
        """`advisor.recommendation/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages, for those who speak another language."""
        explanation = self.explained.document() if self.explained else None
        return recommendation_document(
            self.answer, self.sources, explanation, every_rejected=self.every_rejected
        )

    def text(self, specs: int | None = None) -> str:
        """For a terminal, with so many specs where a number is asked for."""
        from advisor.render.recommendation import recommendation_text  # JSON waits for no text

        text = recommendation_text(self.answer, self.sources, all_rejected=self.every_rejected, specs=specs)
        return text + (self.explained.text() if self.explained else "")

    def written(self, name: str) -> str:
        """The answer in one of `FORMATS`, or its spec in one of `render.exporting`."""
        if name == "json":
            return json.dumps(self.document(), indent=2, allow_nan=False) + "\n"
        if name not in FORMATS:
            from advisor.render.exporting import export

            if self.answer.chosen is None:
                raise NoOfferError(self.no_offer())
            return export(self.answer.chosen, name)
        from advisor.render import document, tables  # most answers are none of these

        writers = {
            "yaml": document.document_yaml,
            "csv": tables.recommendation_csv,
            "md": tables.recommendation_markdown,
        }
        return writers[name](self.document())


def recommended(
    context: Context,
    question: Recommend,
    preparations: Preparations | None = None,
    *,
    today: date | None = None,
    relax: bool = True,
) -> Recommended:
    """The answer to a question, as of `today`.

    `preparations` of the same catalogue and model spare most of the work. Where nothing meets the
    question, finding what to relax takes seconds: without `relax` that is left to `relaxed`.

    Raises `UsageError`, `NoIntervalError`, `NoOfferError` (no prices at all there), and with
    `strict` `StalePriceError`.
    """
    context, question = with_anchors(context, question)
    request, today = context.request(question), today or requests.today()
    if question.live:
        from advisor.answers.live.checking import recommend_live  # boto3 is imported only here

        answer, catalog = recommend_live(request, context.model, today=today, strict=question.strict)
        context = context._replace(catalog=catalog)
        preparations = Preparations(catalog, context.model)
    else:
        if not preparations or not preparations.is_of(context.catalog, context.model):
            preparations = Preparations(context.catalog, context.model)
        answered = partial(recommend, preparations=preparations, today=today)
        answer = fresh_answer(request, answered, today) if question.strict else answered(request)
    chosen = answer.chosen
    notes = left_out(request, context.catalog, today, strict=question.strict)
    answer = replace(
        answer,
        warnings=(*context.notes, *notes, *answer.warnings),
        other_settings=settings_of_candidate(chosen, context.catalog, context.model) if chosen else (),
    )
    every = question.explain_rejected
    result = Recommended(answer, context, preparations, every_rejected=every)
    if chosen is None:
        return relaxed(result, question) if relax else result
    return _explained(result) if question.explain else result


def relaxed(result: Recommended, question: Recommend) -> Recommended:
    """With what would make something answer, where nothing does; else as it is."""
    if result.answer.chosen is not None:
        return result
    from advisor.engine.relaxed import Effort  # most questions have an answer
    from advisor.engine.relaxing import relaxations

    (catalog, model, _), answer, effort = result.context, result.answer, Effort()
    prepared = result.preparations.of(answer.request)
    ways = relaxations(answer, catalog, model, effort, prepared)
    answer = replace(answer, relaxations=ways, warnings=(*answer.warnings, *effort.notes))
    result = result._replace(answer=answer)
    return _explained(result) if question.explain else result


def _explained(result: Recommended) -> Recommended:
    from advisor.answers.explaining import explain_answer

    catalog, model, _ = result.context
    return result._replace(explained=explain_answer(result.answer, catalog, model))
