"""/v1/recommend: the cheapest spec that meets a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from advisor.operations.answering.ground import Ground
from advisor.operations.answering.recommending import Recommended, relaxed, settled
from advisor.operations.answering.words import Words
from advisor.operations.questions.requests import region_of
from advisor.service.access import Scope, needs
from advisor.service.asking import Question, slowly
from advisor.service.forms.questions import RECOMMEND
from advisor.service.metrics import count_recommendation
from advisor.service.openapi.examples import QUESTIONS

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def answer(_request: Request, ground: Ground, words: Words) -> Mapping[str, Any]:
    """The document; what takes long, and what to relax, is asked beside the loop."""
    found: Recommended = (
        await slowly(settled, ground, words) if _takes_long(words) else settled(ground, words)
    )
    if found.answer.chosen is None:
        found = await slowly(relaxed, found, words)
    count_recommendation(met=found.answer.chosen is not None)
    return found.document()


def _takes_long(words: Words) -> bool:
    """Whether others would notice that the loop waits for it: every region is asked, or instances
    without a GPU compete with all their disks, as they do but in inference."""
    everywhere = region_of(words["cloud"], words["region"]) is None
    return everywhere or words["task"] != "inference"


QUESTION = Question(
    "/recommend", RECOMMEND, answer, "Recommendation",
    "The cheapest instance and disk that will really reach a throughput.",
    QUESTIONS["recommend"],
)  # fmt: skip
QUESTION.add_to(router)
