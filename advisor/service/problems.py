"""Turns errors into problem documents (RFC 9457), which say what is wrong and what to do."""

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
# The product's errors that a client can correct, and the kind of each; subclasses come first.
_CLIENT_ERRORS = (
    (NoIntervalError, "no-interval"),
    (NoOfferError, "no-offer"),
    (StalePriceError, "stale-price"),
    (UsageError, "unanswerable"),
)


class Problem(Exception):
    """A refusal with its HTTP status. `kind` is the last part of its type URN, `hint` what the client can do,
    `retry` the seconds after which to try again, and `more` the extra members of this kind's document."""

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
        """The body in the form of `application/problem+json`."""
        optional = {"way_out": _shown(self.hint) if self.hint else None, "field": self.field, **self.more}
        return {
            "type": TYPE_PREFIX + self.kind,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": _shown(self.detail),
            **{name: value for name, value in optional.items() if value is not None},
        }


def problem_response(problem: Problem) -> Response:
    """The response with the problem's document, status and headers."""
    return Response(
        msgspec.json.encode(problem.document()),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=problem.headers,
    )


def problem_of(error: AdvisorError, kind: str | None = None) -> Problem:
    """A problem for an error of the product: 422 (of `kind`) if the client can correct it, else 500."""
    known = next((name for cls, name in _CLIENT_ERRORS if isinstance(error, cls)), None)
    status = 422 if known else 500
    return Problem(
        status, (known and kind) or known or "failed", error.message, hint=error.hint, field=error.field
    )


def unknown_path(
    detail: Message | str, hint: Message | str | None = "GET /openapi.json lists all paths"
) -> Problem:
    """A 404 problem: nothing exists at the path."""
    return Problem(404, "not-found", detail, hint=hint)


# The errors of routes that become problem documents.
HANDLED = (Problem, AdvisorError, RequestValidationError, HTTPException)


async def answer_error(request: Request, error: Exception) -> Response:
    """The response with the problem document of an error, whether the product or the framework raised it."""
    match error:
        case Problem():
            problem = error
        case AdvisorError():
            problem = problem_of(error)
        case RequestValidationError():  # in a path or header; the first error is enough
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
    """A 413 problem. It closes the connection, because the rest of the body is not read."""
    hint = "send less at once; `advisor serve --max-body` allows more"
    detail = Message("the body may have {most:,} bytes", most=most_bytes)
    return Problem(413, "too-large", detail, hint=hint, headers={"Connection": "close"})


def client_left() -> Problem:
    """A 408 problem for a client that has disconnected; only metrics and logs show it."""
    return Problem(408, "client-left", "the client left before its answer was there")


def _other_method(request: Request) -> Problem:
    """A 405 problem that lists the methods of all routes with this path."""
    path, methods = request.url.path[:200], set[str]()
    for route in iter_route_contexts(request.app.routes):
        if route.path and compile_path(route.path)[0].match(request.url.path):
            methods |= route.methods or set()
    allowed = ", ".join(sorted(methods))
    hint = Message("it takes {methods}", methods=allowed)
    detail = Message("{path} does not take {method}", path=path, method=request.method[:20])
    return Problem(405, "method-not-allowed", detail, hint=hint, headers={"Allow": allowed})


def _shown(text: Message | str) -> str:
    """The text in English on one line of limited length (it may quote the client), with API field names."""
    line = without_folders(one_line(render(text, str, str)))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."


def without_folders(value: Any) -> Any:
    """The document with the paths of the user's folders on this machine replaced by `~`."""
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
