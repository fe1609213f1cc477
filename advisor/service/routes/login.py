"""/login and /logout: a key shown to the page once; see `guard.sessions`."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from advisor.service.guard.sessions import local_path, log_in, log_out, set_cookie
from advisor.service.problems import Problem

router = APIRouter(include_in_schema=False)

_FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>Log in</h1>{problem}
<form method="post" action="/login">
<input type="hidden" name="next" value="{next_path}">
<p><label for="key">Key</label>
<input id="key" name="key" type="password" autocomplete="current-password" required></p>
<p><button>Log in</button></p></form>
<p><a href="{next_path}">Logged in already? Go on</a></p>
</main></body></html>
"""


def login_page(_request: Request, *, problem: str, next_path: str, status: int) -> Response:
    """The form: it posts `key` and `next` to /login. `problem` is one line, or ''.

    The link to `next_path` is for who followed a link of another site: the browser sends our cookie
    only where our own page leads."""
    told = f'<p role="alert">{escape(problem)}</p>' if problem else ""
    html = _FORM.format(problem=told, next_path=escape(next_path, quote=True))
    return HTMLResponse(html, status)


@router.get("/login")
async def show(request: Request) -> Response:
    """The form."""
    there = local_path(request.query_params.get("next", "/"))
    return login_page(request, problem="", next_path=there, status=200)


@router.post("/login")
async def enter(request: Request) -> Response:
    """Take a key; on with a cookie, or the form again with what is wrong."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    there = local_path(fields.get("next", ["/"])[0])
    try:
        token = await log_in(request, fields.get("key", [""])[0])
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
