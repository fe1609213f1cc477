"""The questions that are asked thousands of times a second, without the framework's way to them.

Finding a route and resolving its dependencies takes the framework a tenth of a millisecond, which
is as long as the rest of the frame takes. The same functions answer here, after the same check of
who asks; the routes stay registered, so that they are described and found everywhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from advisor.errors import AdvisorError
from advisor.service.asking import Question
from advisor.service.problems import Problem, problem_of, problem_response

Check = Callable[[Request], Awaitable[None]]


class _Route(NamedTuple):
    """What the metrics and the log read of a scope's route."""

    path: str


class _Way(NamedTuple):
    route: _Route
    answer: Callable[[Request], Awaitable[Response]]


class Shortcut:
    """ASGI next to the routes: answers `questions` (under `prefix`) itself, all else goes on."""

    def __init__(
        self, app: ASGIApp, *, prefix: str, questions: Iterable[Question], check: Check
    ) -> None:
        self._app = app
        self._check = check
        self._ways: dict[tuple[Any, Any], _Way] = {}
        for one in questions:
            route = _Route(prefix + one.path)
            self._ways["POST", route.path] = _Way(route, one.posted)
            self._ways["GET", route.path] = _Way(route, one.linked)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        way = self._ways.get((scope.get("method"), scope.get("path")))
        if way is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = way.route
        response = await self._answer(way, Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, way: _Way, request: Request) -> Response:
        try:
            await self._check(request)
            return await way.answer(request)
        except Problem as problem:
            return problem_response(problem)
        except AdvisorError as error:
            return problem_response(problem_of(error))
