"""One question as two routes: POST with a body, GET with the same words as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.ground import Ground
from advisor.answers.words import Words
from advisor.service.answers import ground_of, json_answer
from advisor.service.forms.form import Form
from advisor.service.openapi.parts import body_of, described
from advisor.service.problems import Problem

T = TypeVar("T")
Answer = Callable[[Request, Ground, Words], Awaitable[Mapping[str, Any]]]
# What takes long is computed beside the loop; more of it at once would only share the same core.
_MOST_SLOW = 2
_slow_lines: list[CapacityLimiter] = []


@dataclass(frozen=True, slots=True)
class Question:
    """`path` under /v1, the words it takes, what answers, and its schema in OpenAPI.

    `example` are words of a body; its answer is the example of the answer.
    """

    path: str
    form: Form
    answer: Answer
    schema: str
    about: str
    example: Mapping[str, Any]

    async def posted(self, request: Request) -> Response:
        """The answer to a body."""
        words = self.form.from_json(await body_in(request))
        return json_answer(await self.answer(request, ground_of(request), words))

    async def linked(self, request: Request) -> Response:
        """The answer to a link."""
        words = self.form.from_query(request.scope["query_string"])
        return json_answer(await self.answer(request, ground_of(request), words))

    def add_to(self, router: APIRouter) -> None:
        """Both routes."""
        name = self.path.strip("/")
        router.add_api_route(
            self.path, self.posted, methods=["POST"], operation_id=name, summary=self.about,
            responses=described(self.schema, name),
            openapi_extra=body_of(self.form.name, self.example),
        )  # fmt: skip
        router.add_api_route(
            self.path, self.linked, methods=["GET"], operation_id=f"{name}_by_link",
            summary=f"{self.about} By a link: the words are query parameters.",
            responses=described(self.schema, name),
            openapi_extra={"parameters": self.form.parameters()},
        )  # fmt: skip


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
