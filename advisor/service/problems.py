"""Errors -> problem documents (RFC 9457): what is wrong, and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from advisor.errors import (
    AdvisorError,
    NoIntervalError,
    NoOfferError,
    StalePriceError,
    UsageError,
    one_line,
)
from advisor.messages import render
from advisor.questions.reading import CONTRADICTION, UnreadableError
from advisor.service.private import without_paths_in
from advisor.service.wording import in_fields, way_out_in

MEDIA_TYPE = "application/problem+json"
_MOST_CHARACTERS = 2000
TYPE_PREFIX = "urn:advisor:problem:"
# The product's own errors that a client can mend, the narrower ones first.
_MENDED = (
    (NoIntervalError, "no-interval"),
    (NoOfferError, "no-offer"),
    (StalePriceError, "stale-price"),
    (UsageError, "unanswerable"),
)
_UNKNOWN_PATH = "GET /openapi.json tells what can be asked"


class Problem(Exception):
    """A refusal with its status; `kind` is the end of its type, `detail` and `way_out` one line."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        way_out: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.way_out = way_out or way_out_in(detail)
        self.headers, self.more = headers, more


def problem_response(problem: Problem) -> Response:
    """The document, with what this kind of problem has beside the usual members."""
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + problem.kind,
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": _told(problem.detail),
    }
    if problem.way_out:
        document["way_out"] = _told(problem.way_out)
    return Response(
        orjson.dumps(document | problem.more),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=dict(problem.headers or {}),
    )


def _told(text: str) -> str:
    """One line of bounded length, without the machine's paths: it may repeat what a client sent,
    or what a message for the command line says."""
    line = without_paths_in(one_line(text))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."


def defect_response(number: str) -> Response:
    """500 for what nobody foresaw; `number` is in the log beside what happened."""
    return problem_response(
        Problem(500, "defect", f"a defect of the service; its log tells more under id {number}",
                way_out="tell whoever runs it this id", id=number)
    )  # fmt: skip


def add_problem_handlers(app: FastAPI) -> None:
    """Every error that a route raises becomes a problem document; `Around` has the defects."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(AdvisorError, _of_advisor_error)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, of_http)


def problem_of(error: AdvisorError) -> Problem:
    """The product's own errors: what the client can mend is 422, all else 500."""
    for kind, name in _MENDED:
        if isinstance(error, kind):
            return _problem(422, name, error)
    return _problem(500, "failed", error)


def problem_of_question(error: UsageError) -> Problem:
    """A body or a link that is no question: 400 where it cannot be read at all."""
    if isinstance(error, UnreadableError):
        return _problem(400, "unreadable", error)
    return _problem(422, _KINDS.get(error.code, "invalid"), error)


# What a question that can be read is refused for, by the code of the error.
_KINDS = {"unknown_field": "unknown-field", CONTRADICTION: "unanswerable"}


def _problem(status: int, kind: str, error: AdvisorError) -> Problem:
    """With the field that is wrong and the hint, where the error names them."""
    hint = None if error.hint is None else in_fields(render(error.hint, str, str))
    more: dict[str, Any] = {} if error.field is None else {"field": error.field}
    return Problem(status, kind, in_fields(error.render(str, str)), way_out=hint, **more)


async def _of_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _of_advisor_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AdvisorError)
    return problem_response(problem_of(error))


async def _of_validation(_request: Request, error: Exception) -> Response:
    """Routes with bodies of pydantic: its first complaint."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return problem_response(Problem(400, "unreadable", "the body is no JSON",
                                        way_out="send one JSON object in UTF-8"))  # fmt: skip
    path = [str(part) for part in first["loc"]]
    where = ".".join(path[1:] if path[0] in ("body", "query", "path", "header") else path)
    if first["type"] == "extra_forbidden":
        return problem_response(Problem(422, "unknown-field", f"there is no field '{where}'",
                                        way_out=_UNKNOWN_PATH, field=where))  # fmt: skip
    told = f"{where or 'the body'}: {first['msg']}"
    return problem_response(Problem(422, "invalid", told, field=where))


async def of_http(request: Request, error: Exception) -> Response:
    """What the router itself refuses: an unknown path, a method that a path has not."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    if error.status_code == 404:
        return problem_response(unknown_path(f"there is nothing at {path}"))
    if error.status_code == 405:
        return problem_response(_other_method(request, path))
    kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    return problem_response(
        Problem(error.status_code, kind, str(error.detail), headers=error.headers)
    )


def unknown_path(detail: str, way_out: str = _UNKNOWN_PATH) -> Problem:
    """404: the path names nothing."""
    return Problem(404, "not-found", detail, way_out=way_out)


def _other_method(request: Request, path: str) -> Problem:
    """405 with all that the path takes, whichever route takes it."""
    taken: set[str] = set()
    for one in iter_route_contexts(request.app.routes):
        if one.path and compile_path(one.path)[0].match(request.url.path):
            taken |= one.methods or set()
    allowed = ", ".join(sorted(taken))
    return Problem(405, "method-not-allowed", f"{path} does not take {request.method[:20]}",
                   way_out=f"it takes {allowed}", headers={"Allow": allowed})  # fmt: skip
