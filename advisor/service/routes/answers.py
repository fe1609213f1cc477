"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory: the question is a JSON body or a query string."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers import ask
from advisor.answers.context import Answer, Context, Recommended
from advisor.answers.networks import NetworkRecommended, recommended
from advisor.engine import Preparations
from advisor.questions import commands
from advisor.questions.commands import AnyRecommend
from advisor.questions.network import Recommend
from advisor.questions.question import Kinds
from advisor.service.answers import Answered, answer, context_of, document_json, packed, threads_of
from advisor.service.questions import question_in_body, question_in_link
from advisor.service.visits import needs
from advisor.store.keys import Scope

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


# Computes the answer to a question.
Computing = Callable[[Request, Any], Awaitable[Answered]]


def _add(path: str, kind: Kinds[Any], compute: Computing) -> None:
    """Add the POST and the GET route of a kind of question (one kind per task, or one for all)."""

    async def posted(request: Request) -> Response:
        question = await question_in_body(request, kind)
        return await answer(request, path, question, partial(compute, request, question))

    async def linked(request: Request) -> Response:
        question = question_in_link(request, kind)
        return await answer(request, path, question, partial(compute, request, question))

    router.add_api_route(path, posted, methods=["POST"])
    router.add_api_route(path, linked)


def _in_thread(ask_for: Callable[[Context, Any], Answer], *, slow: bool = False) -> Computing:
    async def compute(request: Request, question: Any) -> Answered:
        context, threads = context_of(request), threads_of(request)
        return await threads.run(lambda: _answered(ask_for(context, question)), slow=slow)

    return compute


async def recommendation(request: Request, question: AnyRecommend) -> Answered:
    """The answer with the cheapest spec; if no spec meets the question, what to relax (takes longer)."""
    threads, context = threads_of(request), context_of(request)
    if not isinstance(question, Recommend):
        return await threads.run(lambda: _answered(ask.recommend(context, question)), slow=True)
    preparations: Preparations = request.app.state.preparations
    is_quick = not question.explain and preparations.is_quick(context.request(question))
    result, answered = await threads.run(_recommendation, context, question, preparations, slow=not is_quick)
    if answered is None:
        answered = await threads.run(lambda: _answered(result.relaxed()), slow=True)
    return answered


def _recommendation(
    context: Context, question: Recommend, preparations: Preparations
) -> tuple[NetworkRecommended, Answered | None]:
    result = recommended(context, question, preparations=preparations, relax=False)
    return result, _answered(result) if result.result.chosen else None


def _answered(result: Answer) -> Answered:
    met = result.result.chosen is not None if isinstance(result, Recommended) else None
    return Answered(packed(document_json(result.message_document())), met)


_add("/recommend", commands.RECOMMEND, recommendation)
_add("/predict", commands.PREDICT, _in_thread(ask.predict))
_add("/compare", commands.COMPARE, _in_thread(ask.compare, slow=True))
# Slow, because it searches for the largest batch on every GPU.
_memory = _in_thread(lambda context, question: ask.memory(context.catalog, question), slow=True)
_add("/memory", commands.MEMORY, _memory)
