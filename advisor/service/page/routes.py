"""All routes of the page, registered by one line of the application, and its "not found"."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from advisor.service.page import (
    compare,
    export,
    find,
    language,
    language_beside,
    login,
    measurements,
    names,
    predict,
    rendering,
    sweeps,
)
from advisor.service.page.frame import Frame
from advisor.service.problems import answer_error

router = APIRouter(include_in_schema=False)
_PAGES = (
    rendering,
    find,
    language,
    language_beside,
    export,
    predict,
    compare,
    names,
    measurements,
    sweeps,
    login,
)
for _page in _PAGES:
    router.include_router(_page.router)


def add_not_found(app: FastAPI) -> None:
    """A page for a browser whose link names nothing; programs get a problem document. After
    `add_problem_handlers`, whose answer it is for all else."""
    app.add_exception_handler(HTTPException, _not_found)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    wants_page = "text/html" in request.headers.get("accept", "")
    if error.status_code != 404 or not wants_page or request.url.path.startswith("/v1"):
        return await answer_error(request, error)
    return Frame(request).page("nowhere.html", status=404)
