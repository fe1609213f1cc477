"""Errors -> problem documents (RFC 9457): what is wrong, and the way out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from advisor.errors import AdvisorError, NoIntervalError, NoOfferError, StalePriceError, UsageError, one_line
from advisor.extras import ROOT
from advisor.files import state_folder, user_folder
from advisor.messages import Message, render

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:advisor:problem:"
_MOST_CHARACTERS = 2000
# The product's own errors that a client can mend, the narrower ones first.
_CLIENT_ERRORS = (
    (NoIntervalError, "no-interval"),
    (NoOfferError, "no-offer"),
    (StalePriceError, "stale-price"),
    (UsageError, "unanswerable"),
)


class Problem(Exception):
    """A refusal with its status; `kind` is the end of its type, `hint` what would be right, `retry` after how
    many seconds to come back, and `more` the members that this kind has beside the usual ones."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: Message | str,
        *,
        hint: Message | str | None = None,
        field: str | None = None,
        retry: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.hint = status, kind, detail, hint
        self.field, self.more = field, more
        self.headers = {**({} if retry is None else {"Retry-After": str(retry)}), **(headers or {})}

    def document(self) -> dict[str, Any]:
        """`application/problem+json`."""
        optional = {"way_out": _shown(self.hint) if self.hint else None, "field": self.field, **self.more}
        return {
            "type": TYPE_PREFIX + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": _shown(self.detail),
            **{name: value for name, value in optional.items() if value is not None},
        }


def problem_response(problem: Problem) -> Response:
    """The document with its status and headers."""
    return Response(
        msgspec.json.encode(problem.document()),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=problem.headers,
    )


def problem_of(error: AdvisorError, kind: str | None = None) -> Problem:
    """The product's own error: 422 for what the client can mend (as `kind`), else 500."""
    known = next((name for cls, name in _CLIENT_ERRORS if isinstance(error, cls)), None)
    status = 422 if known else 500
    return Problem(
        status, (known and kind) or known or "failed", error.message, hint=error.hint, field=error.field
    )


def unknown_path(
    detail: Message | str, hint: Message | str | None = "GET /openapi.json lists all paths"
) -> Problem:
    """404: the path names nothing."""
    return Problem(404, "not-found", detail, hint=hint)


# Every error that a route raises becomes a problem document.
HANDLED = (Problem, AdvisorError, RequestValidationError, HTTPException)


async def answer_error(request: Request, error: Exception) -> Response:
    """The problem document of a refusal, ours or the framework's."""
    match error:
        case Problem():
            problem = error
        case AdvisorError():
            problem = problem_of(error)
        case RequestValidationError():  # a path or header: its first complaint
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"][1:])
            detail = Message("{field}: {reason}", field=field, reason=first["msg"])
            problem = Problem(422, "invalid", detail, field=field)
        case HTTPException(status_code=404):
            path = request.url.path[:200]
            problem = unknown_path(Message("there is nothing at {path}", path=path))
        case HTTPException(status_code=405):
            problem = _other_method(request)
        case HTTPException():
            kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
            problem = Problem(error.status_code, kind, str(error.detail), headers=error.headers)
        case _:
            raise error
    return problem_response(problem)


def too_large(most_bytes: int) -> Problem:
    """413; the rest of the body is not read, so the connection ends."""
    return Problem(
        413,
        "too-large",
        Message("the body may have {most:,} bytes", most=most_bytes),
        hint="send less at once; `advisor serve --max-body` allows more",
        headers={"Connection": "close"},
    )


def client_left() -> Problem:
    """408 that nobody reads; counts and logs have it."""
    return Problem(408, "client-left", "the client left before its answer was there")


def _other_method(request: Request) -> Problem:
    """405 with every method that the path takes, whichever route takes it."""
    path, methods = request.url.path[:200], set[str]()
    for route in iter_route_contexts(request.app.routes):
        if route.path and compile_path(route.path)[0].match(request.url.path):
            methods |= route.methods or set()
    allowed = ", ".join(sorted(methods))
    return Problem(
        405,
        "method-not-allowed",
        Message("{path} does not take {method}", path=path, method=request.method[:20]),
        hint=Message("it takes {methods}", methods=allowed),
        headers={"Allow": allowed},
    )


def _shown(text: Message | str) -> str:
    """One line of bounded length, with fields by the names that clients use: it may repeat what one sent."""
    line = without_folders(one_line(render(text, str, str)))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."


def without_folders(value: Any) -> Any:
    """The document with this machine's own folders written as `~`."""
    if isinstance(value, str) and "/" in value:
        home = os.environ.get("HOME", "")
        own = dict.fromkeys((str(user_folder()), str(state_folder()), home), "~")
        for path, shown in ({sys.executable: "python", f"{ROOT}[": ".["} | own).items():
            value = value.replace(path, shown) if len(path) > 1 else value
    if isinstance(value, Mapping):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_folders(item) for item in value]
    return value
