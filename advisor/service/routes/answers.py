"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory: a question by a body or by a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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
from advisor.questions.reading import parameters_of
from advisor.service.answers import Answered, answer, context_of, document_json, packed, threads_of
from advisor.service.questions import described, question_body, question_in_body, question_in_link
from advisor.service.visits import needs
from advisor.store.keys import Scope

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


class AnsweredQuestion(NamedTuple):
    """The question that `path` takes (or one by task), its answer, and the answer's schema in OpenAPI.
    `compute` is for what needs more than one call of `ask` in a thread. Slow questions keep no quick one
    waiting."""

    path: str
    kind: Kinds[Any]
    ask: Callable[[Context, Any], Answer]
    schema: str
    about: str
    example: Mapping[str, Any]
    is_slow: bool = False
    compute: Callable[[Request, Any], Awaitable[Answered]] | None = None

    def add(self) -> None:
        """Add both routes to the router."""
        name, responses = self.path.strip("/"), described(self.schema)
        router.add_api_route(
            self.path,
            self._posted,
            methods=["POST"],
            operation_id=name,
            summary=self.about,
            responses=responses,
            openapi_extra=question_body(self.kind, self.example),
        )
        router.add_api_route(
            self.path,
            self._linked,
            operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: the fields are query parameters.",
            responses=responses,
            openapi_extra={"parameters": parameters_of(self.kind)},
        )

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
    """The cheapest spec; where nothing meets the question, what to relax, which takes longer."""
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
    path="/recommend",
    kind=commands.RECOMMEND,
    ask=ask.recommend,
    compute=recommendation,
    schema="Recommendation",
    about="The cheapest instance and disk that will really reach a throughput.",
    example={"task": "inference", "model": "googlenet", "target_throughput": 500},
)
PREDICT = AnsweredQuestion(
    path="/predict",
    kind=commands.PREDICT,
    ask=ask.predict,
    schema="AnyPrediction",
    about="What one instance will reach, how sure that is, and what holds it back.",
    example={
        "task": "inference",
        "model": "googlenet",
        "instance": "g4dn.xlarge",
        "disk": "gp3:500GiB",
        "vcpus": 8,
        "curve": {"vcpus": [2, 4]},
    },
)
COMPARE = AnsweredQuestion(
    path="/compare",
    kind=commands.COMPARE,
    ask=ask.compare,
    schema="AnyComparison",
    is_slow=True,
    about="How much faster, and at what cost: instances, or GPUs by themselves.",
    example={"task": "training", "model": "resnet50", "instance": ["g4dn.xlarge", "g5.xlarge"]},
)
# The largest batch is searched for on every GPU.
MEMORY = AnsweredQuestion(
    path="/memory",
    kind=commands.MEMORY,
    ask=lambda context, question: ask.memory(context.catalog, question),
    schema="AnyMemory",
    is_slow=True,
    about="GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
    example={"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
)
for _question in (RECOMMEND, PREDICT, COMPARE, MEMORY):
    _question.add()
