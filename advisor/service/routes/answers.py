"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory: the question is a JSON body or a query string."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers import ask
from advisor.answers.answer import Answer, Recommended
from advisor.answers.context import Context
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


class AnsweredQuestion(NamedTuple):
    """A path, the kind of question that it takes (one kind per task or one for all), and the function `ask`
    that answers it in a thread. `compute` replaces `ask` where one call is not enough. Slow questions wait
    in a separate queue."""

    path: str
    kind: Kinds[Any]
    ask: Callable[[Context, Any], Answer]
    is_slow: bool = False
    compute: Callable[[Request, Any], Awaitable[Answered]] | None = None

    def add(self) -> None:
        """Add the POST and the GET route to the router."""
        router.add_api_route(self.path, self._posted, methods=["POST"])
        router.add_api_route(self.path, self._linked)

    async def _posted(self, request: Request) -> Response:
        question = await question_in_body(request, self.kind)
        return await answer(request, self.path, question, partial(self._computed, request, question))

    async def _linked(self, request: Request) -> Response:
        question = question_in_link(request, self.kind)
        return await answer(request, self.path, question, partial(self._computed, request, question))

    async def _computed(self, request: Request, question: Any) -> Answered:
        if self.compute is not None:
            return await self.compute(request, question)
        context, threads = context_of(request), threads_of(request)
        return await threads.run(lambda: _answered(self.ask(context, question)), slow=self.is_slow)


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


RECOMMEND = AnsweredQuestion(
    path="/recommend", kind=commands.RECOMMEND, ask=ask.recommend, compute=recommendation
)
PREDICT = AnsweredQuestion(path="/predict", kind=commands.PREDICT, ask=ask.predict)
COMPARE = AnsweredQuestion(path="/compare", kind=commands.COMPARE, ask=ask.compare, is_slow=True)
# Slow, because it searches for the largest batch on every GPU.
MEMORY = AnsweredQuestion(
    path="/memory",
    kind=commands.MEMORY,
    ask=lambda context, question: ask.memory(context.catalog, question),
    is_slow=True,
)
for _question in (RECOMMEND, PREDICT, COMPARE, MEMORY):
    _question.add()
