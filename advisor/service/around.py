"""What stands around each request: its id, its time, its line in the log; and its defects."""

from __future__ import annotations

import itertools
import re
import secrets
import time
import traceback

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from advisor.service.logs import log_line
from advisor.service.metrics import count_request
from advisor.service.problems import defect_response

REQUEST_ID = "X-Request-Id"
_HEADER = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_NO_ROUTE = "(none)"


class Around:
    """ASGI around the whole application, refusals of its guards included."""

    def __init__(self, app: ASGIApp, *, logs: bool) -> None:
        self._app = app
        self._logs = logs
        self._start, self._count = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; anything else goes through as it is."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._serve(scope, receive, send, _given_id(scope) or self._next_id())

    def _next_id(self) -> str:
        return f"{self._start}-{next(self._count):x}"

    async def _serve(self, scope: Scope, receive: Receive, send: Send, number: str) -> None:
        began, status = time.perf_counter(), 0
        scope.setdefault("state", {})["request_id"] = number

        async def numbered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(raw=message["headers"])[REQUEST_ID] = number
            await send(message)

        try:
            await self._app(scope, receive, numbered)
        finally:
            self._note(scope, status, time.perf_counter() - began, number)

    def _note(self, scope: Scope, status: int, seconds: float, number: str) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        count_request(route_of(scope), method, status, seconds)
        if self._logs:
            client = scope.get("client")
            log_line(
                "request", id=number, method=method, path=scope["path"][:200], status=status,
                ms=round(1000 * seconds, 2), client=client[0] if client else None,
            )  # fmt: skip


class Defects:
    """ASGI next to the routes: what nobody foresaw becomes a problem document and a log line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; a half-sent answer is broken off, which is all that can tell of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            number = scope["state"]["request_id"]
            log_line("defect", id=number, error=repr(error), trace=_trace(error))
            if begun:
                raise
            await defect_response(number)(scope, receive, send)


def route_of(scope: Scope) -> str:
    """The template of the route that answered: as few as there are routes."""
    route = scope.get("route")
    return getattr(route, "path", None) or _NO_ROUTE


def _given_id(scope: Scope) -> str | None:
    """A client's own id, where it is one."""
    for name, value in scope["headers"]:
        if name == _HEADER and _ID.fullmatch(value):
            return str(value, "ascii")
    return None


def _trace(error: Exception) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()[-40:]
