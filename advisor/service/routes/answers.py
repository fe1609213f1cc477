"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from advisor.answers import ask
from advisor.answers.answer import Answer, Recommended
from advisor.answers.context import Context
from advisor.answers.networks import NetworkRecommended, recommended
from advisor.domain.workload import is_own
from advisor.engine import Preparations
from advisor.questions import commands
from advisor.questions.commands import AnyRecommend
from advisor.questions.network import Recommend
from advisor.questions.question import Kinds, Question
from advisor.questions.reading import from_values, parameters_of
from advisor.questions.settled import today
from advisor.service.answers import (
    Answered,
    Document,
    cache_headers,
    context_of,
    document_json,
    etag_of,
    not_modified,
    packed,
    packed_answer,
    threads_of,
)
from advisor.service.auth import needs, visit_of
from advisor.service.bodies import question_in_body, question_in_link
from advisor.service.metrics import count_recommendation, product_version
from advisor.service.openapi import SHOWN_TYPE, described, question_body
from advisor.store.keys import Scope

Q = TypeVar("Q", bound=Question)


class QuestionRoutes(Struct, Generic[Q], frozen=True, kw_only=True):
    """`path` under /v1, the question that it takes (or one by task), its answer's document, and that
    document's schema in OpenAPI. `answer` is for what needs more than one call of `document` in a thread.
    Slow questions keep no quick one waiting."""

    path: str
    kind: Kinds[Q]
    ask: Callable[[Context, Q], Answer]
    schema: str
    about: str
    example: Mapping[str, Any]
    is_slow: bool = False
    answer: Callable[[Request, Q], Awaitable[Answered]] | None = None

    def add_to(self, router: APIRouter) -> None:
        """Add both routes."""
        name = self.path.strip("/")
        responses = described(self.schema, name, self._example)
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
            methods=["GET"],
            operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: the fields are query parameters.",
            responses=responses,
            openapi_extra={"parameters": parameters_of(self.kind)},
        )

    async def _posted(self, request: Request) -> Response:
        return await self._answered(request, await question_in_body(request, self.kind))

    async def _linked(self, request: Request) -> Response:
        return await self._answered(request, question_in_link(request, self.kind))

    async def _answered(self, request: Request, question: Q) -> Response:
        """Kept bytes where they are of today; 304 where the client of a link has them already."""
        context, kept = context_of(request), request.app.state.kept
        etag = etag_of(
            product_version(),
            context.catalog.fingerprint,
            context.model.id,
            self.path,
            today().isoformat(),
            repr(question),
        )
        lasts = not is_own(str(getattr(question, "model", "")))
        headers = cache_headers(etag) if lasts and request.method == "GET" else {}
        if headers and (unchanged := not_modified(request, etag)):
            return unchanged
        answered = kept.get(etag)
        if answered is None:
            answered = await self._computed(request, question)
            if lasts and visit_of(request).still_waits():
                kept.keep(etag, answered)
        if answered.met is not None:
            count_recommendation(met=answered.met)
        return packed_answer(request, answered.packed, headers)

    async def _computed(self, request: Request, question: Q) -> Answered:
        if self.answer is not None:
            return await self.answer(request, question)
        context, threads = context_of(request), threads_of(request)
        return await threads.run(self._computed_of, context, question, slow=self.is_slow)

    def _computed_of(self, context: Context, question: Q) -> Answered:
        return _answered(self.ask(context, question))

    def _example(self, context: Context) -> Document:
        return self.ask(context, from_values(self.kind, self.example)).message_document()


router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def recommendation(request: Request, question: AnyRecommend) -> Answered:
    """The cheapest spec; where nothing meets the question, what to relax, which takes longer."""
    threads, context = threads_of(request), context_of(request)
    if not isinstance(question, Recommend):
        return await threads.run(lambda: _answered(ask.recommend(context, question)), slow=True)
    preparations: Preparations = request.app.state.preparations
    is_quick = not question.explain and preparations.is_quick(context.request(question))
    result, answered = await threads.run(_recommendation, context, question, preparations, slow=not is_quick)
    if answered is None:
        answered = await threads.run(_relaxed, result, slow=True)
    return answered


def _recommendation(
    context: Context, question: Recommend, preparations: Preparations
) -> tuple[NetworkRecommended, Answered | None]:
    answer = recommended(context, question, preparations=preparations, relax=False)
    return answer, _answered(answer) if answer.result.chosen else None


def _relaxed(answer: NetworkRecommended) -> Answered:
    return _answered(answer.relaxed())


def _answered(answer: Answer) -> Answered:
    met = answer.result.chosen is not None if isinstance(answer, Recommended) else None
    return Answered(packed(document_json(answer.message_document())), met)


RECOMMEND = QuestionRoutes(
    path="/recommend",
    kind=commands.RECOMMEND,
    ask=ask.recommend,
    answer=recommendation,
    schema="Recommendation",
    about="The cheapest instance and disk that will really reach a throughput.",
    example={"task": "inference", "model": "googlenet", "target_throughput": 500},
)
PREDICT = QuestionRoutes(
    path="/predict",
    kind=commands.PREDICT,
    ask=ask.predict,
    schema="AnyPrediction",
    about="What one instance will reach, how sure that is, and what holds it back.",
    example={
        "task": "inference",
        "model": "googlenet",
        "instance": SHOWN_TYPE,
        "disk": "gp3:500GiB",
        "vcpus": 8,
        "curve": {"vcpus": [2, 4]},
    },
)
COMPARE = QuestionRoutes(
    path="/compare",
    kind=commands.COMPARE,
    ask=ask.compare,
    schema="AnyComparison",
    is_slow=True,
    about="How much faster, and at what cost: instances, or GPUs by themselves.",
    example={"task": "training", "model": "resnet50", "instance": [SHOWN_TYPE, "g5.xlarge"]},
)
# The largest batch is searched for on every GPU.
MEMORY = QuestionRoutes(
    path="/memory",
    kind=commands.MEMORY,
    ask=lambda context, question: ask.memory(context.catalog, question),
    schema="AnyMemory",
    is_slow=True,
    about="GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
    example={"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
)
for _routes in (RECOMMEND, PREDICT, COMPARE, MEMORY):
    _routes.add_to(router)
