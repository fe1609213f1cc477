"""The form that takes a key, as `advisor.service.routes.login` shows it."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from advisor.service.page.frame import Frame


def login_page(request: Request, *, problem: str, next_path: str, status: int) -> Response:
    """The form: it posts `key` and `next` to /login. `problem` is one line, or ''.

    The link to `next_path` is for who followed a link of another site: the browser sends our cookie
    only where our own page leads.
    """
    frame = Frame(request)
    return frame.page("login.html", status=status, problem=problem, next_path=next_path)
