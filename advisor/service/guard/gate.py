"""The gate that every request goes through before a route sees it."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from advisor.service.access import LOCAL, Caller, unauthorized
from advisor.service.access_keys import Scope as KeyScope
from advisor.service.guard.bodies import Gone, check_body, read_body, replayed
from advisor.service.guard.door import Door, Seen
from advisor.service.guard.headers import dress
from advisor.service.guard.key_ring import StoreAway
from advisor.service.guard.limits import Limits
from advisor.service.guard.logbook import Logbook
from advisor.service.guard.origins import Hosts, changes, is_foreign, is_surely_own
from advisor.service.guard.refusals import (
    doubled_header,
    foreign_page,
    forwarded_stranger,
    keys_unknown,
    null_character,
    unknown_host,
)
from advisor.service.guard.visit import Visit
from advisor.service.problems import Problem, problem_response

_LOCAL_READER = Caller("loopback", KeyScope.READ)


class Gate:
    """ASGI around the application: names, origin, caller, rate, body, line, headers, audit log."""

    def __init__(
        self, app: ASGIApp, door: Door, hosts: Hosts, limits: Limits, logbook: Logbook
    ) -> None:
        self._app, self._door, self._hosts = app, door, hosts
        self._limits, self._logbook = limits, logbook

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = Visit.of(scope)
        try:
            await self._serve(visit, receive, send)
        finally:
            self._logbook.note(visit)

    async def _serve(self, visit: Visit, receive: Receive, send: Send) -> None:
        place = self._limits.place_of(visit)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                scheme = visit.scope.get("scheme", "http")
                dress(message, scheme=scheme, more=visit.more_headers)
                place.leave()  # who reads slowly keeps nobody from being computed
            await send(message)

        try:
            refusal = await self._admit(visit)
            if refusal is not None:
                await refusal(visit.scope, receive, answer)
                return
            await place.enter()
            await self._app(visit.scope, await self._body(visit, receive), answer)
        except Gone:
            return
        except Problem as problem:
            visit.refused = problem.detail
            await problem_response(problem)(visit.scope, receive, answer)
        finally:
            place.leave()

    async def _admit(self, visit: Visit) -> Response | None:
        """None lets it in; a page is sent to the login, anything else a `Problem`."""
        self._check_head(visit)
        try:
            seen = await self._door.who(visit.head)
        except StoreAway:
            if not visit.is_open:
                raise keys_unknown() from None
            seen = Seen(None)
        if seen.caller is LOCAL and visit.head.forwarded:
            raise forwarded_stranger()
        caller = self._known(visit, seen)
        if caller is None and not visit.is_open:
            return self._unknown(visit, seen)
        visit.let_in(caller)
        self._limits.count(visit)
        return None

    def _check_head(self, visit: Visit) -> None:
        head = visit.head
        if head.doubled:
            raise doubled_header(head.doubled)
        if not self._hosts.knows(head.host):
            raise unknown_host(head.host)
        if is_foreign(visit.method, visit.path, head):
            raise foreign_page()
        if "\0" in visit.path or b"%00" in visit.scope.get("query_string", b""):
            raise null_character()

    def _known(self, visit: Visit, seen: Seen) -> Caller | None:
        caller = seen.caller
        if caller is None and visit.path == "/metrics" and self._hosts.is_loopback:
            return _LOCAL_READER
        by_cookie = caller is not None and caller.by == "session"
        if by_cookie and changes(visit.method) and not is_surely_own(visit.head):
            raise foreign_page()
        return caller

    def _unknown(self, visit: Visit, seen: Seen) -> Response:
        self._limits.count_failure(visit)
        if visit.wants_page:
            query = visit.scope.get("query_string", b"").decode("latin-1")
            there = f"{visit.path}?{query}" if query else visit.path
            return RedirectResponse(f"/login?next={quote(there, safe='')}", 303)
        raise unauthorized(seen.reason)

    async def _body(self, visit: Visit, receive: Receive) -> Receive:
        if not changes(visit.method):
            return receive
        limit = self._limits.body_of(visit)
        body = await read_body(
            receive,
            most_bytes=limit.most_bytes,
            seconds=limit.seconds,
            told_length=visit.head.content_length,
        )
        if limit.is_one_document:
            check_body(body)
        return replayed(body, receive)
