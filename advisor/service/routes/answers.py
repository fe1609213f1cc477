"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import APIRouter, Request

from advisor.answers.comparing import compared
from advisor.answers.ground import Ground
from advisor.answers.memory import memory_document_of
from advisor.answers.predicting import predicted
from advisor.answers.recommending import Decide, Recommended, deciding_with, relaxed, settled
from advisor.questions.requests import region_of
from advisor.service.access import Scope, needs
from advisor.service.answers import ground_of, threads_of
from advisor.service.examples import QUESTIONS
from advisor.service.forms.questions import COMPARE, MEMORY_OF, PREDICT, RECOMMEND
from advisor.service.metrics import count_recommendation
from advisor.service.questions import QuestionRoutes

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])
_Fields = Mapping[str, Any]


async def recommendation(request: Request, fields: _Fields) -> bytes:
    """The cheapest spec; where nothing meets the question, what to relax, which takes longer."""
    threads, deciding = threads_of(request), deciding_with(request.app.state.preparations)
    ground, slow = ground_of(request), _is_slow(fields)
    found, content = await threads.run(_recommendation, ground, fields, deciding, slow=slow)
    if content is None:
        content = await threads.run(_relaxed, found, fields, slow=True)
    count_recommendation(met=found.answer.chosen is not None)
    return content


async def prediction(request: Request, fields: _Fields) -> bytes:
    """One instance."""
    return await threads_of(request).run(_prediction, ground_of(request), fields)


async def comparison(request: Request, fields: _Fields) -> bytes:
    """Networks times instances, or times GPUs."""
    return await threads_of(request).run(_comparison, ground_of(request), fields, slow=True)


async def memory(request: Request, fields: _Fields) -> bytes:
    """The largest batch is searched for on every GPU."""
    return await threads_of(request).run(_memory, ground_of(request), fields, slow=True)


def _is_slow(fields: _Fields) -> bool:
    """Whether it looks at far more candidates than a question of one region."""
    several = fields["max_count"] > 1 or fields["pareto"] or fields["explain"]
    return several or region_of(fields["cloud"], fields["region"]) is None


def _recommendation(
    ground: Ground, fields: _Fields, deciding: Decide
) -> tuple[Recommended, bytes | None]:
    found = settled(ground, fields, deciding)
    return found, msgspec.json.encode(found.document()) if found.answer.chosen else None


def _relaxed(found: Recommended, fields: _Fields) -> bytes:
    return msgspec.json.encode(relaxed(found, fields).document())


def _prediction(ground: Ground, fields: _Fields) -> bytes:
    return msgspec.json.encode(predicted(ground, fields).document())


def _comparison(ground: Ground, fields: _Fields) -> bytes:
    return msgspec.json.encode(compared(ground, fields).document())


def _memory(ground: Ground, fields: _Fields) -> bytes:
    return msgspec.json.encode(memory_document_of(ground.catalog, fields))


for _routes in (
    QuestionRoutes(
        "/recommend", RECOMMEND, recommendation, "Recommendation",
        "The cheapest instance and disk that will really reach a throughput.",
        QUESTIONS["recommend"],
    ),
    QuestionRoutes(
        "/predict", PREDICT, prediction, "Prediction",
        "What one instance will reach, how sure that is, and what holds it back.",
        QUESTIONS["predict"],
    ),
    QuestionRoutes(
        "/compare", COMPARE, comparison, "Comparison",
        "How much faster, and at what cost: instances, or GPUs by themselves.",
        QUESTIONS["compare"],
    ),
    QuestionRoutes(
        "/memory", MEMORY_OF, memory, "MemoryAnswer",
        "GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
        QUESTIONS["memory"],
    ),
):  # fmt: skip
    _routes.add_to(router)
