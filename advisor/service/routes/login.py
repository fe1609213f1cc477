"""/login and /logout: a key shown to the page once; see `guard.sessions`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from advisor.service.guard.sessions import local_path, log_in, log_out, set_cookie
from advisor.service.page.login import login_page
from advisor.service.posted import posted_fields
from advisor.service.problems import Problem

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def show(request: Request) -> Response:
    """The form."""
    there = local_path(request.query_params.get("next", "/"))
    return login_page(request, problem="", next_path=there, status=200)


@router.post("/login")
async def enter(request: Request) -> Response:
    """Take a key; on with a cookie, or the form again with what is wrong."""
    fields = await posted_fields(request)
    there = local_path(fields.get("next", "/"))
    try:
        token = await log_in(request, fields.get("key", ""))
    except Problem as problem:
        return login_page(request, problem=problem.detail, next_path=there, status=problem.status)
    response = RedirectResponse(there, 303)
    set_cookie(response, request, token)
    return response


@router.post("/logout")
async def leave(request: Request) -> Response:
    """End the session; the form again."""
    await log_out(request)
    response = RedirectResponse("/login", 303)
    set_cookie(response, request, "")
    return response
