"""A question as routes: POST with a JSON body, GET with the same fields as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.questions.by_task import Kinds
from advisor.questions.question import Question
from advisor.questions.reading import from_values, parameters_of
from advisor.service.answers import Document, context_of, document_json, json_answer, threads_of
from advisor.service.bodies import question_in_body, question_in_link
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
    answer: Callable[[Request, Q], Awaitable[bytes]] | None = None

    def add_to(self, router: APIRouter) -> None:
        """Both routes."""
        name = self.path.strip("/")
        responses = described(self.schema, name, self._example)
        router.add_api_route(
            self.path, self._posted, methods=["POST"], operation_id=name, summary=self.about,
            responses=responses, openapi_extra=question_body(self.kind, self.example),
        )  # fmt: skip
        router.add_api_route(
            self.path, self._linked, methods=["GET"], operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: the fields are query parameters.",
            responses=responses, openapi_extra={"parameters": parameters_of(self.kind)},
        )  # fmt: skip

    async def _posted(self, request: Request) -> Response:
        return await self._answered(request, await question_in_body(request, self.kind))

    async def _linked(self, request: Request) -> Response:
        return await self._answered(request, question_in_link(request, self.kind))

    async def _answered(self, request: Request, question: Q) -> Response:
        if self.answer is not None:
            return json_answer(await self.answer(request, question))
        context, threads = context_of(request), threads_of(request)
        return json_answer(await threads.run(self._json, context, question, slow=self.is_slow))

    def _json(self, context: Context, question: Q) -> bytes:
        return document_json(self.document(context, question))

    def _example(self, context: Context) -> Document:
        return self.document(context, from_values(self.kind, self.example))
