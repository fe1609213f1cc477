"""One function a question: words -> the answer, for whoever asks (command line, service)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from advisor.catalog import Catalog
from advisor.domain import Recommendation
from advisor.operations.questions.requests import request_from, today
from advisor.operations.questions.sources import sources_of
from advisor.recommend import recommend, require_fresh_price
from advisor.records import replace
from advisor.report.document import recommendation_document
from models.performance import PerformanceModel


class Ground(NamedTuple):
    """What an answer stands on."""

    catalog: Catalog
    model: PerformanceModel


def recommended(ground: Ground, answers: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a recommendation; where nothing answers it tells what to relax."""
    catalog, model = ground
    request = request_from(model.networks, catalog, dict(answers))
    answer = recommend(request, catalog, model, today=today())
    if answers.get("strict") and answer.chosen is not None:
        require_fresh_price(answer.chosen, answer.today)
    if answer.chosen is None:
        answer = relaxed(answer, ground)
    return recommendation_document(answer, sources_of(model, catalog))


def relaxed(answer: Recommendation, ground: Ground) -> Recommendation:
    """With what to relax; asking again takes seconds, and most questions have an answer."""
    from advisor.recommend.relaxing import relaxations

    return replace(answer, relaxations=relaxations(answer, ground.catalog, ground.model))
