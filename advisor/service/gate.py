"""The gate before the routes: by which name, from which page, by whom and how often.

Host: a page of a stranger may point a name of its own at 127.0.0.1 (DNS rebinding) and then read answers as
if they were its own; the Host header has that name, so only our names are taken. Origin and Sec-Fetch-Site: a
page of a stranger may send a request here without reading the answer; browsers say so, and programs that are
no browser send neither. CORS stays closed.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections.abc import Iterable
from urllib.parse import quote

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from advisor.messages import Message
from advisor.service.auth import (
    LOCAL_READER,
    Authenticator,
    StoreUnreadableError,
    Visit,
    client_network,
    unauthorized,
)
from advisor.service.problems import Problem
from advisor.service.settings import Settings

LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
# Headers that a client sends once or not at all: of two it is unclear which one counts.
_ONCE = ("host", "authorization", "content-length", "origin")
_OWN_SITE = ("same-origin", "none")
# What a browser opens in a tab of its own; a frame in another site's page is none of these.
_TABS = ("", "document")
# What proxies add, whichever of them they are set up to.
_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
_HOST = re.compile(r"(?P<name>\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
# A client rarely mistypes a key twenty times.
_WRONG_KEYS = RateLimitItemPerSecond(20, 10, namespace="wrong-keys")
# Of those without a key, of an address: a page's files are ten requests.
_TURNS_PER_SECOND, _TURNS_AT_ONCE, _LONGEST_TURN_SECONDS = 50.0, 20, 10.0
_MOST_ADDRESSES = 4096
_WINDOW_SECONDS = 2


class RateLimits:
    """The limits of one worker process; `per_second` 0 is none."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._item = _window(per_second) if per_second else None
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._turns: dict[str, float] = {}  # of the monotonic clock, the last one of each address

    async def count(self, visit: Visit) -> None:
        """One request more of the key, else of the address; `Problem` 429 for one too many."""
        if self._item is None:
            return
        client = visit.client
        allowed = await self._limiter.hit(self._item, client)
        window = await self._limiter.get_window_stats(self._item, client)
        seconds = max(1, math.ceil(window.reset_time - time.time()))
        remaining = max(0, window.remaining)
        wait = 0 if remaining else seconds
        policy = f'"default";q={self._item.amount};w={self._item.multiples}'
        visit.rate_headers = (
            (b"ratelimit-policy", policy.encode()),
            (b"ratelimit", f'"default";r={remaining};t={wait}'.encode()),
        )
        if not allowed:
            raise _too_often(seconds, f"{self._per_second:g} a second")

    async def turn(self, visit: Visit) -> None:
        """Return when a request without a key has its turn: so many a second of an address, evenly, however
        many connections it holds, so that all others lose little time to it. `Problem` 429, after a while,
        where too many of it wait already."""
        if self._item is None:
            return
        now, client = time.monotonic(), client_network(visit.address)
        if len(self._turns) > _MOST_ADDRESSES:
            self._turns = {address: last for address, last in self._turns.items() if last > now}
        last = max(self._turns.get(client, 0.0), now - _TURNS_AT_ONCE / _TURNS_PER_SECOND)
        next_turn = last + 1 / _TURNS_PER_SECOND
        if next_turn - now > _LONGEST_TURN_SECONDS:
            # Each for a time of its own: hundreds that come back at once would be a burst.
            await asyncio.sleep(_LONGEST_TURN_SECONDS * random.uniform(1, 2))
            raise _too_often(1, f"{_TURNS_PER_SECOND:g} a second without a key")
        self._turns[client] = next_turn
        await asyncio.sleep(max(0.0, next_turn - now))

    async def count_wrong_key(self, visit: Visit) -> None:
        """One request more without a key that works; `Problem` 429 for too many."""
        client = client_network(visit.address)
        if not await self._limiter.hit(_WRONG_KEYS, client):
            raise _too_often(_WRONG_KEYS.multiples, "2 a second without a key that works")


class Gate:
    """ASGI before the routes; what it refuses is a `Problem`."""

    def __init__(
        self, app: ASGIApp, settings: Settings, authenticator: Authenticator, rates: RateLimits
    ) -> None:
        self._app, self._authenticator, self._rates = app, authenticator, rates
        self._is_loopback = settings.is_loopback
        self._names = _names(settings)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Let a request in, send a page to the login, or raise a `Problem`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = Visit.of(scope)
        try:
            answer = await self._admit(visit)
        finally:
            if visit.caller is None:  # to refuse costs time as well
                await self._rates.turn(visit)
        await (answer or self._app)(scope, receive, send)

    async def _admit(self, visit: Visit) -> Response | None:
        """None lets it in."""
        self._check_headers(visit)
        if visit.is_open:  # whatever has become of the store of keys
            return None
        try:
            identity = await self._authenticator.identify(visit)
        except StoreUnreadableError:
            raise Problem(
                503,
                "keys-unreadable",
                "the store of keys cannot be read at the moment",
                headers={"Retry-After": "5"},
            ) from None
        caller = identity.caller
        if caller and caller.by == "loopback" and _is_forwarded(visit):
            raise Problem(
                403,
                "forwarded",
                "a proxy forwards this to a service without keys",
                hint="make one: advisor keys add NAME --scope read",
            )
        if visit.path == "/metrics" and self._is_loopback and not _is_forwarded(visit):
            caller = caller or LOCAL_READER
        if caller is None:
            return await self._refuse_stranger(visit, identity.reason)
        if caller and caller.by == "session" and visit.changes and not is_own_page(visit):
            raise foreign_page()
        visit.caller = caller
        await self._rates.count(visit)
        return None

    def _check_headers(self, visit: Visit) -> None:
        for name in _ONCE:
            if len(visit.headers.getlist(name)) > 1:
                detail = Message("header '{name}' was sent twice", name=name)
                raise Problem(400, "doubled-header", detail)
        host = visit.headers.get("host", "")
        if self._names is not None and host_name(host) not in self._names:
            raise Problem(
                421,
                "unknown-host",
                Message("this service has no name '{host}'", host=host[:100]),
                hint="use localhost, or start it with --public-host NAME",
            )
        if is_foreign_page(visit):
            raise foreign_page()
        if "\0" in visit.path or b"%00" in visit.scope.get("query_string", b""):
            raise Problem(400, "null-character", "a null character has no place in a request")

    async def _refuse_stranger(self, visit: Visit, reason: str) -> Response:
        await self._rates.count_wrong_key(visit)
        if not visit.wants_page:
            raise unauthorized(reason)
        query = visit.scope.get("query_string", b"").decode("latin-1")
        target = f"{visit.path}?{query}" if query else visit.path
        return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)


def host_name(host: str) -> str:
    """The name of a Host header, without its port, in small letters: '[::1]:8765' -> '[::1]'.

    '' where what follows the name is no port ('localhost:@evil.example')."""
    match = _HOST.fullmatch(host)
    return match["name"].rstrip(".").lower() if match else ""


def _names(settings: Settings) -> Iterable[str] | None:
    """The names under which it is reached. Anywhere but on loopback all are, unless names were given: there
    every request needs a key, which a stranger's page does not have."""
    if not settings.is_loopback and not settings.public_hosts:
        return None
    return LOCAL_NAMES | {host_name(host) for host in settings.public_hosts}


def is_foreign_page(visit: Visit) -> bool:
    """Whether a browser says that another site's page sends this. Following a link to here is allowed; all
    else is not: a picture's address would be an answer that takes seconds."""
    site = visit.headers.get("sec-fetch-site")
    if site and site not in _OWN_SITE:
        navigates = visit.headers.get("sec-fetch-mode") == "navigate"
        in_tab = visit.headers.get("sec-fetch-dest", "") in _TABS
        return visit.changes or not navigates or not in_tab
    if site:  # said to be ours; with our Referrer-Policy the Origin of a form is 'null'
        return False
    return "origin" in visit.headers and not _is_own_origin(visit)


def is_own_page(visit: Visit) -> bool:
    """Whether a browser says that our own page sends this: required of what comes with a cookie."""
    site = visit.headers.get("sec-fetch-site")
    return site == "same-origin" if site else _is_own_origin(visit)


def foreign_page() -> Problem:
    """403 for what another site's page sends."""
    return Problem(
        403,
        "foreign-origin",
        "a browser sent this from another site's page",
        hint="use the page of this service, or a program",
    )


def _is_own_origin(visit: Visit) -> bool:
    """Whether the Origin is the very host, with its port, that was called, as it was called."""
    own = f"{visit.scope.get('scheme', 'http')}://{visit.headers.get('host', '')}"
    return visit.headers.get("origin", "").lower() == own.lower()


def _is_forwarded(visit: Visit) -> bool:
    return any(name in visit.headers for name in _OF_PROXIES)


def _window(per_second: float) -> RateLimitItem:
    """Two seconds' requests in two seconds; of less than one in that time, one in so long."""
    amount = int(per_second * _WINDOW_SECONDS)
    if amount >= 1:
        return RateLimitItemPerSecond(amount, _WINDOW_SECONDS)
    return RateLimitItemPerSecond(1, math.ceil(1 / per_second))


def _too_often(seconds: int, policy: str) -> Problem:
    return Problem(
        429,
        "too-often",
        Message("more requests than allowed ({policy})", policy=policy),
        hint=Message("come back in {seconds} s; `advisor serve --rate-limit` allows more", seconds=seconds),
        headers={"Retry-After": str(seconds)},
    )
