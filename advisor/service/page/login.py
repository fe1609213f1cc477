"""`/login` and `/logout`: a user enters a key once, and a session cookie replaces it for half a day.

The cookie holds a random token, of which the store keeps the digest. The token does not reveal the key, ends
with it, and works in all worker processes. Scripts cannot read it (HttpOnly), other sites' pages cannot send
it (SameSite=Strict), and a request that changes something is accepted with it only if the browser says that
it comes from our page (`gate.is_own_page`)."""

from __future__ import annotations

import secrets
import time
from contextlib import closing

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from advisor.service.gate import COOKIE, foreign_page, is_own_page
from advisor.service.page.frame import Frame
from advisor.service.problems import Problem
from advisor.service.questions import form_fields
from advisor.service.visits import unauthorized, visit_of
from advisor.store.keys import ApiKeys, Session, digest_of

_TOKEN_BYTES = 32
router = APIRouter(include_in_schema=False)
SESSION_SECONDS = 12 * 3600.0


@router.get("/login")
async def show(request: Request) -> Response:
    """The login form."""
    return _form(request, local_path(request.query_params.get("next", "/")))


@router.post("/login")
async def enter(request: Request) -> Response:
    """Log in with the posted key: set the cookie and redirect, or show the form with the error."""
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
    """End the session, if there is one, and redirect to the form."""
    state, token = request.app.state, request.cookies.get(COOKIE)
    if token:
        await run_in_threadpool(_end_session, state.settings.database_url, token)
        state.auditor.write("logout", visit_of(request))
    response = RedirectResponse("/login", 303)
    set_cookie(response, request, "")
    return response


def _form(request: Request, next_path: str, problem: str = "", status: int = 200) -> Response:
    """The login form, which posts `key` and `next` to /login. It links to `next_path` for users who came from
    another site and are logged in already: the browser sends the cookie only when they follow our link."""
    return Frame(request).page("login.html", status=status, problem=problem, next_path=next_path)


async def log_in(request: Request, key: str) -> str:
    """Open a session for the key and return its token, for `set_cookie`.

    Raises `Problem` 401 if the key does not work, 403 if another site's page sent the form, and 429 after
    too many keys that did not work."""
    state, visit = request.app.state, visit_of(request)
    if not is_own_page(visit):
        raise foreign_page()
    identity = await state.authenticator.of_key(key.strip())
    if isinstance(identity, str):
        await state.rates.count_wrong_key(visit)
        visit.refusal = identity
        raise unauthorized(identity)
    token, visit.caller = secrets.token_urlsafe(_TOKEN_BYTES), identity
    await run_in_threadpool(_open_session, state.settings.database_url, token, str(identity.key_id))
    state.auditor.write("login", visit)
    return token


def set_cookie(response: Response, request: Request, token: str) -> None:
    """Set the session cookie to the token, or delete the cookie if the token is ''."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(SESSION_SECONDS) if token else 0,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def local_path(text: str) -> str:
    """The path to open after the login: `text` if it is a path of this service, else '/'."""
    is_ours = text.startswith("/") and not text.startswith(("//", "/login", "/logout"))
    return text if is_ours and "\\" not in text and text.isprintable() else "/"


def _open_session(url: str | None, token: str, key_id: str) -> None:
    now = time.time()
    with closing(ApiKeys(url)) as book:
        expires = book.named(key_id).expires_at or now + SESSION_SECONDS
        until = min(expires, now + SESSION_SECONDS)
        book.open_session(Session(digest_of(token), key_id, until), now=now)


def _end_session(url: str | None, token: str) -> None:
    with closing(ApiKeys(url)) as book:
        book.end_session(digest_of(token))
