"""A question as routes: POST with a JSON body, GET with the same fields as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.domain.workload import is_own
from advisor.questions.by_task import Kinds
from advisor.questions.question import Question
from advisor.questions.reading import from_values, parameters_of
from advisor.questions.requests import today
from advisor.service.access import visit_of
from advisor.service.answers import (
    Answered,
    Document,
    cache_headers,
    context_of,
    etag_of,
    not_modified,
    packed_answer,
    threads_of,
)
from advisor.service.bodies import question_in_body, question_in_link
from advisor.service.metrics import count_recommendation, product_version
from advisor.service.openapi import described, question_body

Q = TypeVar("Q", bound=Question)


class QuestionRoutes(Struct, Generic[Q], frozen=True, kw_only=True):
    """`path` under /v1, the question that it takes (or one by task), its answer's document, and
    that document's schema in OpenAPI. `answer` is for what needs more than one call of `document`
    in a thread. Slow questions keep no quick one waiting."""

    path: str
    kind: Kinds[Q]
    document: Callable[[Context, Q], Document]
    schema: str
    about: str
    example: Mapping[str, Any]
    is_slow: bool = False
    answer: Callable[[Request, Q], Awaitable[Answered]] | None = None

    def add_to(self, router: APIRouter) -> None:
        """Both routes."""
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
        return await threads.run(self._document, context, question, slow=self.is_slow)

    def _document(self, context: Context, question: Q) -> Answered:
        return Answered.of(self.document(context, question))

    def _example(self, context: Context) -> Document:
        return self.document(context, from_values(self.kind, self.example))
