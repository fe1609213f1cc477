"""Logins on the page: a key is shown once, a cookie stands for it for half a day.

The cookie's token is another random secret, of which the store has the digest: it says nothing of
the key, ends with it, and works in all worker processes. Scripts cannot read it (HttpOnly), other
sites' pages cannot send it (SameSite=Strict), and what changes something is taken with it only
where the browser says that our own page asks (`gate.is_own_page`).
"""

from __future__ import annotations

import time
from contextlib import closing

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from advisor.service.access import unauthorized, visit_of
from advisor.service.access_keys import digest_of, new_session_token
from advisor.service.gate import foreign_page, is_own_page
from advisor.service.keys import COOKIE
from advisor.store.keys import ApiKeys, Session

SESSION_SECONDS = 12 * 3600.0


async def log_in(request: Request, key: str) -> str:
    """The token of a new session of that key, for `set_cookie`.

    `Problem` 401 for a key that does not work, 403 where another site's page sent the form, 429
    after too many keys that did not work."""
    state, visit = request.app.state, visit_of(request)
    if not is_own_page(visit):
        raise foreign_page()
    identity = await state.authenticator.of_key(key.strip())
    if identity.caller is None or identity.caller.key_id is None:
        await state.rates.count_wrong_key(visit)
        visit.refusal = identity.reason
        raise unauthorized(identity.reason)
    token, visit.caller = new_session_token(), identity.caller
    url, key_id = state.settings.database_url, identity.caller.key_id
    await run_in_threadpool(_open_session, url, token, key_id)
    state.auditor.write("login", visit)
    return token


async def log_out(request: Request) -> None:
    """End the session of the request's cookie; without one, nothing happens."""
    state, token = request.app.state, request.cookies.get(COOKIE)
    if token:
        await run_in_threadpool(_end_session, state.settings.database_url, token)
        state.auditor.write("logout", visit_of(request))


def set_cookie(response: Response, request: Request, token: str) -> None:
    """Let the browser keep the token, or forget it where it is ''."""
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
    """Where to go after the login: a path of ours, '/' for anything else."""
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
