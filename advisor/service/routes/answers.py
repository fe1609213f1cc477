"""/v1/predict, /v1/compare and /v1/memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from advisor.answers.comparing import compared
from advisor.answers.ground import Ground
from advisor.answers.memory import memory_document_of
from advisor.answers.predicting import predicted
from advisor.questions.models import Compare, MemoryQuestion, Predict
from advisor.service.access import Scope, needs
from advisor.service.asking import Question, slowly
from advisor.service.openapi.examples import QUESTIONS

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def prediction(_request: Request, ground: Ground, question: Predict) -> Mapping[str, Any]:
    """One instance: a millisecond."""
    return predicted(ground, question).document()


async def comparison(_request: Request, ground: Ground, question: Compare) -> Mapping[str, Any]:
    """Networks times instances, or times GPUs."""
    return await slowly(lambda: compared(ground, question).document())


async def memory(_request: Request, ground: Ground, question: MemoryQuestion) -> Mapping[str, Any]:
    """The largest batch is searched for on every GPU."""
    return await slowly(memory_document_of, ground.catalog, question)


ASKED = (
    Question(
        "/predict", Predict, prediction, "Prediction",
        "What one instance will reach, how sure that is, and what holds it back.",
        QUESTIONS["predict"],
    ),
    Question(
        "/compare", Compare, comparison, "Comparison",
        "How much faster, and at what cost: instances, or GPUs by themselves.",
        QUESTIONS["compare"],
    ),
    Question(
        "/memory", MemoryQuestion, memory, "MemoryAnswer",
        "GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
        QUESTIONS["memory"],
    ),
)  # fmt: skip
for question in ASKED:
    question.add_to(router)
