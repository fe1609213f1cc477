"""The cheapest spec that meets a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from advisor.answers.context import Context, with_anchors
from advisor.answers.explaining import NOTHING, Explained, explain_answer
from advisor.catalog import Catalog
from advisor.domain import Recommendation, Request
from advisor.engine import (
    PerformanceModel,
    Preparations,
    recommend,
    require_fresh_price,
)
from advisor.engine.other_settings import settings_of_candidate
from advisor.questions.models import Recommend
from advisor.questions.requests import today
from advisor.records import replace
from advisor.render.document import Sources, plain_document, recommendation_document

# The answer to a request, and the catalogue that it was looked for in.
Solver = Callable[[Request, Catalog, PerformanceModel], tuple[Recommendation, Catalog]]


class Recommended(NamedTuple):
    """An answer with all that is told of it."""

    answer: Recommendation
    context: Context
    explained: Explained = NOTHING
    every_rejected: bool = False

    @property
    def sources(self) -> Sources:
        """What it stands on."""
        return self.context.sources()

    def document(self) -> dict[str, Any]:
        """`advisor.recommendation/1`, numbers unrounded."""
        return plain_document(self.message_document())

    def message_document(self) -> dict[str, Any]:
        """The same with its sentences as messages, for those who speak another language."""
        return recommendation_document(
            self.answer, self.sources, self.explained.document(), every_rejected=self.every_rejected
        )


def solve(
    request: Request, catalog: Catalog, model: PerformanceModel
) -> tuple[Recommendation, Catalog]:
    """The answer of what is known here."""
    return recommend(request, Preparations(catalog, model), today=today()), catalog


def solver_with(known: Preparations) -> Solver:
    """The same, where questions of one workload follow each other."""

    def decide_quickly(
        request: Request, catalog: Catalog, model: PerformanceModel
    ) -> tuple[Recommendation, Catalog]:
        if model is not known.model or catalog is not known.catalog:
            return solve(request, catalog, model)
        return recommend(request, known, today=today()), catalog

    return decide_quickly


def recommended(context: Context, question: Recommend, solver: Solver = solve) -> Recommended:
    """The answer to a question, with what to relax where nothing meets them.

    Raises `UsageError`, `NoIntervalError`, `NoOfferError` (no prices at all there), and with
    `strict` `StalePriceError`. What to relax takes seconds: `first_answer` and `with_relaxations`
    part the two.
    """
    return with_relaxations(first_answer(context, question, solver), question)


def first_answer(context: Context, question: Recommend, solver: Solver = solve) -> Recommended:
    """The answer alone, in milliseconds; where nothing meets the question, `with_relaxations`
    names what would."""
    context, question = with_anchors(context, question)
    answer, catalog = solver(context.request(question), context.catalog, context.model)
    settings = settings_of_candidate(answer.chosen, catalog, context.model) if answer.chosen else ()
    notes = (*context.notes, *answer.warnings)
    answer = replace(answer, warnings=notes, other_settings=settings)
    if question.strict and answer.chosen is not None:
        require_fresh_price(answer.chosen, answer.today)
    every = question.explain_rejected
    found = Recommended(answer, context._replace(catalog=catalog), every_rejected=every)
    return found if answer.chosen is None else _explained(found, question)


def with_relaxations(found: Recommended, question: Recommend) -> Recommended:
    """With what would make something answer, where nothing does; else as it is."""
    if found.answer.chosen is not None:
        return found
    from advisor.engine.relaxing import relaxations  # most questions have an answer

    answer, (catalog, model, _) = found.answer, found.context
    answer = replace(answer, relaxations=relaxations(answer, catalog, model))
    return _explained(found._replace(answer=answer), question)


def _explained(found: Recommended, question: Recommend) -> Recommended:
    if not question.explain:
        return found
    catalog, model, _ = found.context
    return found._replace(explained=explain_answer(found.answer, catalog, model))
