"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request

from advisor.answers.comparing import compared
from advisor.answers.context import Context
from advisor.answers.memory import memory_document_of
from advisor.answers.predicting import predicted
from advisor.answers.recommending import (
    Recommended,
    recommended,
    relaxed,
)
from advisor.engine import Preparations
from advisor.questions.models import Compare, MemoryQuestion, Predict, Recommend
from advisor.questions.requests import region_of
from advisor.service.access import Scope, needs
from advisor.service.answers import context_of, threads_of
from advisor.service.examples import EXAMPLES
from advisor.service.metrics import count_recommendation
from advisor.service.questions import QuestionRoutes

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def recommendation(request: Request, question: Recommend) -> bytes:
    """The cheapest spec; where nothing meets the question, what to relax, which takes longer."""
    threads, preparations = threads_of(request), request.app.state.preparations
    context, slow = context_of(request), _is_slow(question)
    found, content = await threads.run(_recommendation, context, question, preparations, slow=slow)
    if content is None:
        content = await threads.run(_relaxed, found, question, slow=True)
    count_recommendation(met=found.answer.chosen is not None)
    return content


async def prediction(request: Request, question: Predict) -> bytes:
    """One instance."""
    return await threads_of(request).run(_prediction, context_of(request), question)


async def comparison(request: Request, question: Compare) -> bytes:
    """Networks times instances, or times GPUs."""
    return await threads_of(request).run(_comparison, context_of(request), question, slow=True)


async def memory(request: Request, question: MemoryQuestion) -> bytes:
    """The largest batch is searched for on every GPU."""
    return await threads_of(request).run(_memory, context_of(request), question, slow=True)


def _is_slow(question: Recommend) -> bool:
    """Whether it looks at far more candidates than a question of one region."""
    several = question.max_count > 1 or question.pareto or question.explain
    return several or region_of(question.cloud, question.region) is None


def _recommendation(
    context: Context, question: Recommend, preparations: Preparations
) -> tuple[Recommended, bytes | None]:
    found = recommended(context, question, preparations, relax=False)
    return found, msgspec.json.encode(found.document()) if found.answer.chosen else None


def _relaxed(found: Recommended, question: Recommend) -> bytes:
    return msgspec.json.encode(relaxed(found, question).document())


def _prediction(context: Context, question: Predict) -> bytes:
    return msgspec.json.encode(predicted(context, question).document())


def _comparison(context: Context, question: Compare) -> bytes:
    return msgspec.json.encode(compared(context, question).document())


def _memory(context: Context, question: MemoryQuestion) -> bytes:
    return msgspec.json.encode(memory_document_of(context.catalog, question))


for _routes in (
    QuestionRoutes(
        "/recommend", Recommend, recommendation, "Recommendation",
        "The cheapest instance and disk that will really reach a throughput.",
        EXAMPLES["recommend"],
    ),
    QuestionRoutes(
        "/predict", Predict, prediction, "Prediction",
        "What one instance will reach, how sure that is, and what holds it back.",
        EXAMPLES["predict"],
    ),
    QuestionRoutes(
        "/compare", Compare, comparison, "Comparison",
        "How much faster, and at what cost: instances, or GPUs by themselves.",
        EXAMPLES["compare"],
    ),
    QuestionRoutes(
        "/memory", MemoryQuestion, memory, "MemoryAnswer",
        "GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
        EXAMPLES["memory"],
    ),
):  # fmt: skip
    _routes.add_to(router)
