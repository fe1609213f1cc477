"""An address that names nothing, told as a page to who follows a link; programs get a problem."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from advisor.service.page.frame import Frame
from advisor.service.problems import of_http

_API = "/v1"


def add_nowhere(app: FastAPI) -> None:
    """To be called after `add_problem_handlers`, whose answer it is for all else."""
    app.add_exception_handler(HTTPException, _told)


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != 404 or not _shows_pages(request):
        return await of_http(request, error)
    return Frame(request).page("nowhere.html", status=404)


def _shows_pages(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "text/html" in accepted and not request.url.path.startswith(_API)
