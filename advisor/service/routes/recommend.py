"""/v1/recommend: the cheapest spec that meets a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from advisor.answers.ground import Ground
from advisor.answers.recommending import deciding_with, relaxed, settled
from advisor.engine import Preparations
from advisor.questions.models import Recommend
from advisor.questions.requests import region_of
from advisor.service.access import Scope, needs
from advisor.service.asking import Question, slowly
from advisor.service.metrics import count_recommendation
from advisor.service.openapi.examples import QUESTIONS

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def answer(request: Request, ground: Ground, question: Recommend) -> Mapping[str, Any]:
    """The document; what is asked for the first time, what is asked of every region, and what to
    relax are looked for beside the loop."""
    known: Preparations = request.app.state.preparations
    deciding = deciding_with(known)
    if _is_quick(ground, question, known):
        found = settled(ground, question, deciding)
    else:
        found = await slowly(settled, ground, question, deciding)
    if found.answer.chosen is None:
        found = await slowly(relaxed, found, question)
    count_recommendation(met=found.answer.chosen is not None)
    return found.document()


def _is_quick(ground: Ground, question: Recommend, known: Preparations) -> bool:
    """Whether a question of this workload was answered before, in one region."""
    if region_of(question.cloud, question.region) is None:
        return False
    return known.is_quick(ground.request(question))


QUESTION = Question(
    "/recommend", Recommend, answer, "Recommendation",
    "The cheapest instance and disk that will really reach a throughput.",
    QUESTIONS["recommend"],
)  # fmt: skip
QUESTION.add_to(router)
