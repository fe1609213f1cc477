"""The cheapest spec that meets a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from advisor.catalog import Catalog
from advisor.domain import Recommendation, Request
from advisor.operations.answering.explaining import NOTHING, Explained, explain_answer
from advisor.operations.answering.ground import Ground, with_anchors
from advisor.operations.answering.words import Words
from advisor.operations.questions.requests import today
from advisor.recommend import PerformanceModel, recommend, require_fresh_price
from advisor.records import replace
from advisor.report.document import Sources, recommendation_document

# The answer to a request, and the catalogue that it was looked for in.
Decide = Callable[[Request, Catalog, PerformanceModel], tuple[Recommendation, Catalog]]


class Recommended(NamedTuple):
    """An answer with all that is told of it."""

    answer: Recommendation
    ground: Ground
    explained: Explained = NOTHING

    @property
    def sources(self) -> Sources:
        """What it stands on."""
        return self.ground.sources()

    def document(self) -> dict[str, Any]:
        """`advisor.recommendation/1`, numbers unrounded."""
        return recommendation_document(self.answer, self.sources, self.explained.document())


def decided(
    request: Request, catalog: Catalog, model: PerformanceModel
) -> tuple[Recommendation, Catalog]:
    """The answer of what is known here."""
    return recommend(request, catalog, model, today=today()), catalog


def recommended(ground: Ground, words: Words, decide: Decide = decided) -> Recommended:
    """The answer to `words`, with what to relax where nothing meets them.

    Raises `UsageError`, `NoIntervalError`, `NoOfferError` (no prices at all there), and with
    `strict` `StalePriceError`. What to relax takes seconds; `settled` and `relaxed` part the two.
    """
    return relaxed(settled(ground, words, decide), words)


def settled(ground: Ground, words: Words, decide: Decide = decided) -> Recommended:
    """The answer alone, in milliseconds: where nothing meets the question, `relaxed` tells what
    would."""
    ground, words = with_anchors(ground, words)
    answer, catalog = decide(ground.request(words), ground.catalog, ground.model)
    answer = replace(answer, warnings=(*ground.notes, *answer.warnings))
    if words.get("strict") and answer.chosen is not None:
        require_fresh_price(answer.chosen, answer.today)
    found = Recommended(answer, ground._replace(catalog=catalog))
    return found if answer.chosen is None else _explained(found, words)


def relaxed(found: Recommended, words: Words) -> Recommended:
    """With what would make something answer, where nothing does; else as it is."""
    if found.answer.chosen is not None:
        return found
    from advisor.recommend.relaxing import relaxations  # most questions have an answer

    answer, (catalog, model, _) = found.answer, found.ground
    answer = replace(answer, relaxations=relaxations(answer, catalog, model))
    return _explained(found._replace(answer=answer), words)


def _explained(found: Recommended, words: Words) -> Recommended:
    if not words.get("explain"):
        return found
    catalog, model, _ = found.ground
    return found._replace(explained=explain_answer(found.answer, catalog, model))
