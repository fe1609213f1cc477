"""A question as two routes: POST with a JSON body, GET with the same fields as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.questions.models import Question
from advisor.questions.reading import parameters_of
from advisor.service.answers import encoded_answer
from advisor.service.bodies import question_in_body, question_in_link
from advisor.service.openapi import described, question_body

Q = TypeVar("Q", bound=Question)


@dataclass(frozen=True, slots=True)
class QuestionRoutes(Generic[Q]):
    """`path` under /v1, the question that it takes, what answers it as JSON, the answer's schema in
    OpenAPI, and a question whose answer is the example."""

    path: str
    kind: type[Q]
    answer: Callable[[Request, Q], Awaitable[bytes]]
    schema: str
    about: str
    example: Mapping[str, Any]

    def add_to(self, router: APIRouter) -> None:
        """Both routes."""
        name = self.path.strip("/")
        router.add_api_route(
            self.path, self._posted, methods=["POST"], operation_id=name, summary=self.about,
            responses=described(self.schema, name),
            openapi_extra=question_body(self.kind, self.example),
        )  # fmt: skip
        router.add_api_route(
            self.path, self._linked, methods=["GET"], operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: the fields are query parameters.",
            responses=described(self.schema, name),
            openapi_extra={"parameters": parameters_of(self.kind)},
        )  # fmt: skip

    async def _posted(self, request: Request) -> Response:
        question = await question_in_body(request, self.kind)
        return encoded_answer(await self.answer(request, question))

    async def _linked(self, request: Request) -> Response:
        question = question_in_link(request, self.kind)
        return encoded_answer(await self.answer(request, question))
