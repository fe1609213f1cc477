"""`/login` and `/logout`: a key is shown to the page once; see `advisor.service.sessions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from advisor.service.bodies import form_fields
from advisor.service.page.frame import Frame
from advisor.service.problems import Problem
from advisor.service.sessions import local_path, log_in, log_out, set_cookie

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def show(request: Request) -> Response:
    """The form."""
    return _form(request, local_path(request.query_params.get("next", "/")))


@router.post("/login")
async def enter(request: Request) -> Response:
    """Take a key; on with a cookie, or the form again with what is wrong."""
    fields = await form_fields(request)
    next_path = local_path(fields.get("next", "/"))
    try:
        token = await log_in(request, fields.get("key", ""))
    except Problem as problem:
        return _form(request, next_path, str(problem.detail), problem.status)
    response = RedirectResponse(next_path, 303)
    set_cookie(response, request, token)
    return response


@router.post("/logout")
async def leave(request: Request) -> Response:
    """End the session; the form again."""
    await log_out(request)
    response = RedirectResponse("/login", 303)
    set_cookie(response, request, "")
    return response


def _form(request: Request, next_path: str, problem: str = "", status: int = 200) -> Response:
    """It posts `key` and `next` to /login. The link to `next_path` is for who followed a link of
    another site: the browser sends our cookie only where our own page leads."""
    frame = Frame(request)
    return frame.page("login.html", status=status, problem=problem, next_path=next_path)
