"""A question as two routes: POST with a JSON body, GET with the same fields as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.service.answers import encoded_answer
from advisor.service.bodies import json_body
from advisor.service.forms.form import Form
from advisor.service.openapi import described, question_body

# Fields of a question -> the answer as JSON.
Answer = Callable[[Request, Mapping[str, Any]], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class QuestionRoutes:
    """`path` under /v1, the fields it takes, what answers, its schema in OpenAPI, and a question
    whose answer is the example."""

    path: str
    form: Form
    answer: Answer
    schema: str
    about: str
    example: Mapping[str, Any]

    def add_to(self, router: APIRouter) -> None:
        """Both routes."""
        name = self.path.strip("/")
        router.add_api_route(
            self.path, self._posted, methods=["POST"], operation_id=name, summary=self.about,
            responses=described(self.schema, name),
            openapi_extra=question_body(self.form.name, self.example),
        )  # fmt: skip
        router.add_api_route(
            self.path, self._linked, methods=["GET"], operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: the fields are query parameters.",
            responses=described(self.schema, name),
            openapi_extra={"parameters": self.form.parameters()},
        )  # fmt: skip

    async def _posted(self, request: Request) -> Response:
        return encoded_answer(
            await self.answer(request, self.form.from_json(await json_body(request)))
        )

    async def _linked(self, request: Request) -> Response:
        words = self.form.from_query(request.scope["query_string"])
        return encoded_answer(await self.answer(request, words))
