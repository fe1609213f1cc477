"""Errors -> problem documents (RFC 9457): what is wrong, and the way out."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from advisor.errors import AdvisorError, NoIntervalError, UsageError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:advisor:problem:"
_log = logging.getLogger("advisor.service")


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
        self.way_out, self.headers, self.more = way_out, headers, more


def problem_response(problem: Problem) -> Response:
    """The document, with what this kind of problem has beside the usual members."""
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + problem.kind,
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.way_out:
        document["way_out"] = problem.way_out
    return Response(
        orjson.dumps(document | problem.more),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=dict(problem.headers or {}),
    )


def add_problem_handlers(app: FastAPI) -> None:
    """Every error that a route raises becomes a problem document."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(AdvisorError, _of_advisor_error)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_defect)


def problem_of(error: AdvisorError) -> Problem:
    """The product's own errors: what the client can mend is 422, all else 500."""
    if isinstance(error, NoIntervalError):
        return Problem(422, "no-interval", str(error), way_out="allow_extrapolation: true")
    if isinstance(error, UsageError):
        return Problem(422, "unanswerable", str(error))
    return Problem(500, "failed", str(error))


async def _of_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _of_advisor_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AdvisorError)
    return problem_response(problem_of(error))


async def _of_validation(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
    return problem_response(Problem(422, "invalid", f"{where}: {first['msg']}", field=where))


async def _of_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    return problem_response(
        Problem(error.status_code, kind, str(error.detail), headers=error.headers)
    )


async def _of_defect(_request: Request, error: Exception) -> Response:
    number = uuid.uuid4().hex[:12]
    _log.error("defect %s", number, exc_info=error)
    return problem_response(
        Problem(500, "defect", f"a defect of the service; its log tells more under {number}")
    )
