"""One question as two routes: POST with a body, GET with the same fields as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.ground import Ground
from advisor.errors import UsageError
from advisor.questions import models as questions
from advisor.questions.reading import from_json, from_link, parameters_of
from advisor.service.answers import ground_of, json_answer
from advisor.service.openapi.parts import body_of, described, schema_name
from advisor.service.problems import Problem, problem_of_question

T = TypeVar("T")
Q = TypeVar("Q", bound=questions.Question)
Answer = Callable[[Request, Ground, Any], Awaitable[Mapping[str, Any]]]
# What takes long is computed beside the loop; more of it at once would only share the same core.
_MOST_SLOW = 2
_slow_lines: list[CapacityLimiter] = []


@dataclass(frozen=True, slots=True)
class Question:
    """`path` under /v1, the question it takes, what answers, and its schema in OpenAPI.

    `example` is a body; its answer is the example of the answer.
    """

    path: str
    kind: type[questions.Question]
    answer: Answer
    schema: str
    about: str
    example: Mapping[str, Any]

    async def posted(self, request: Request) -> Response:
        """The answer to a body."""
        question = question_in_body(self.kind, await body_in(request))
        return json_answer(await self.answer(request, ground_of(request), question))

    async def linked(self, request: Request) -> Response:
        """The answer to a link."""
        question = question_in_link(self.kind, request.scope["query_string"])
        return json_answer(await self.answer(request, ground_of(request), question))

    def add_to(self, router: APIRouter) -> None:
        """Both routes."""
        name = self.path.strip("/")
        router.add_api_route(
            self.path, self.posted, methods=["POST"], operation_id=name, summary=self.about,
            responses=described(self.schema, name),
            openapi_extra=body_of(schema_name(self.kind), self.example),
        )  # fmt: skip
        router.add_api_route(
            self.path, self.linked, methods=["GET"], operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: its fields are query parameters.",
            responses=described(self.schema, name),
            openapi_extra={"parameters": parameters_of(self.kind)},
        )  # fmt: skip


def question_in_body(kind: type[Q], body: bytes) -> Q:
    """The question of a JSON body; `Problem` names the field that is wrong."""
    try:
        return from_json(kind, body)
    except UsageError as error:
        raise problem_of_question(error) from None


def question_in_link(kind: type[Q], query: bytes) -> Q:
    """The same of a link."""
    try:
        return from_link(kind, query)
    except UsageError as error:
        raise problem_of_question(error) from None


async def body_in(request: Request) -> bytes:
    """A JSON body; `Problem` 415 for another kind, 413 for more bytes than the settings allow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "unsupported-media-type", f"the body is '{kind[:60]}', not JSON",
                      way_out="send it with Content-Type: application/json")  # fmt: skip
    most = request.app.state.settings.most_body_bytes
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Problem(413, "too-large", f"the body may have {most:,} bytes",
                          way_out="send less at once",
                          headers={"Connection": "close"})  # fmt: skip
        parts.append(part)
    return b"".join(parts)


async def slowly(work: Callable[..., T], *given: Any) -> T:
    """`work` in a thread, two at once in a process: the loop goes on answering."""
    if not _slow_lines:
        _slow_lines.append(CapacityLimiter(_MOST_SLOW))
    return await to_thread.run_sync(work, *given, limiter=_slow_lines[0])
