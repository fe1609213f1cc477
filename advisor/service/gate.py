"""Checks every request before it reaches a route: its host name, its origin, its caller and its rate.

Host: a foreign page may point its domain at 127.0.0.1 (DNS rebinding) and then read answers as same-origin.
The Host header shows that domain, so only the service's names are accepted. Origin and Sec-Fetch-Site: a
foreign page may send a request here even if it cannot read the answer. Browsers mark such requests with these
headers; other programs send neither. CORS stays closed.

Before a route is reached, the caller is recognised by a key, by a session cookie, or by being on this machine
while there are no keys. Each route under /v1 names the scope that it needs. Each worker process reads the
(small) tables of keys in a separate thread and uses them for `FRESH_SECONDS`. A key that is missing may be
new, so the tables are read once more. If the store cannot be read, the last reading serves for
`STALE_SECONDS`, and then all requests that need a key are refused."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import quote

from limits import RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from advisor.errors import AdvisorError
from advisor.messages import Message
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.service.visits import LOCAL, LOCAL_READER, NEEDS_KEY, Caller, Visit, client_network, unauthorized
from advisor.store.keys import ApiKeys, Holders, Scope, StoredKey, digest_of, key_id_of

COOKIE = "advisor_session"
FRESH_SECONDS = 1.0
STALE_SECONDS = 10.0
# The last use of a key is written at most this often, so that requests cause few writes.
USE_NOTED_EVERY_SECONDS = 900.0
_READING_SECONDS = 1.0
# Short, because a client waits for its answer meanwhile.
_STORE_PATIENCE_SECONDS = 0.5
_BEARER = "bearer "
_LOG = logging.getLogger("advisor.service")


class StoreUnreadableError(Exception):
    """The keys cannot be read, and the last reading is too old to use."""


class KeyCache:
    """A cache of the store's keys and sessions, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.database_url
        self._book: ApiKeys | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._holders = Holders({}, {})
        # Monotonic times at which the last successful and the latest reading began.
        self._read_at = self._began_at = -float("inf")
        self._reading: asyncio.Task[None] | None = None
        self._used_at: dict[str, float] = {}
        # `had_keys`: whether the store has had any key since this process started. Removing the
        # database file must not turn the need for a key off.
        self.had_keys = self.was_read = False

    async def holders(self, *, since: float = -float("inf")) -> Holders:
        """The keys and sessions of the store: read after `since` (monotonic time) and less than
        `FRESH_SECONDS` ago, or, while the store cannot be read, less than `STALE_SECONDS` ago.

        Raises `StoreUnreadableError` if the last reading is older than that."""
        if self._read_at < since or time.monotonic() - self._read_at >= FRESH_SECONDS:
            if self._reading is None or self._reading.done():
                self._began_at = time.monotonic()
                self._reading = asyncio.create_task(self._read())
            patience = self._began_at + _READING_SECONDS - time.monotonic()  # a reading may hang
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._reading), patience)
        if time.monotonic() - self._read_at > STALE_SECONDS:
            raise StoreUnreadableError
        return self._holders

    async def can_be_read(self) -> bool:
        """True if the store answers now; it is asked once in `FRESH_SECONDS`, however many ask."""
        with suppress(StoreUnreadableError):
            await self.holders()
        return time.monotonic() - self._read_at < 2 * FRESH_SECONDS

    def note_use(self, key: StoredKey, now: float) -> None:
        """Have the thread write to the store that the key was used at `now` (seconds since 1970)."""
        latest = max(key.last_used_at or 0.0, self._used_at.get(key.key_id, 0.0))
        if now - latest >= USE_NOTED_EVERY_SECONDS:
            self._used_at[key.key_id] = now
            self._thread.submit(self._write_use, key.key_id, now)

    def close(self) -> None:
        """End the thread and close the database connections."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._book is not None:
            self._book.close()

    async def _read(self) -> None:
        began, loop = self._began_at, asyncio.get_running_loop()
        try:
            self._holders = await loop.run_in_executor(self._thread, self._fetch)
        except AdvisorError as error:
            _LOG.warning("the keys cannot be read: %s", error)
            return
        self._read_at, self.was_read = began, True
        self.had_keys = self.had_keys or bool(self._holders.keys)

    def _fetch(self) -> Holders:
        if self._book is None:
            self._book = ApiKeys(self._url, reading=True, patience_seconds=_STORE_PATIENCE_SECONDS)
        return self._book.holders(now=time.time())

    def _write_use(self, key_id: str, moment: float) -> None:
        with suppress(AdvisorError):
            if self._book is not None:
                self._book.used(key_id, moment)


# A caller, or the reason why a request has none.
Identity = Caller | str


class Authenticator:
    """Recognises callers by the keys of the store."""

    def __init__(self, settings: Settings) -> None:
        self.keys = KeyCache(settings)
        self._is_loopback = settings.is_loopback

    async def identify(self, visit: Visit) -> Identity:
        """The identity behind a request. Raises `StoreUnreadableError` if the keys cannot be read."""
        authorization = visit.headers.get("authorization")
        if authorization:
            is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
            return await self.of_key(authorization[len(_BEARER) :].strip() if is_bearer else "")
        token = cookie_parser(visit.headers.get("cookie", "")).get(COOKIE)
        return await self._of_session(token) if token else await self._of_machine()

    async def of_key(self, key: str) -> Identity:
        """The identity that a key stands for. Raises `StoreUnreadableError` as `identify` does."""
        key_id = key_id_of(key)
        if key_id is None:
            return "this is no key of this service"
        stored = (await self.keys.holders()).keys.get(key_id)
        if stored is None:
            stored = (await self.keys.holders(since=time.monotonic())).keys.get(key_id)
        if stored is None or not stored.is_made_of(key):
            return "this key is not known"
        return self._of_stored(stored, "key")

    async def _of_session(self, token: str) -> Identity:
        digest = digest_of(token)
        holders = await self.keys.holders()
        if digest not in holders.sessions:
            holders = await self.keys.holders(since=time.monotonic())
        session = holders.sessions.get(digest)
        if session is not None and session.expires_at > time.time():
            stored = holders.keys.get(session.key_id)
            if stored is not None:
                return self._of_stored(stored, "session")
        local = await self._of_machine()
        return local if isinstance(local, Caller) else "this login has ended"

    async def _of_machine(self) -> Identity:
        try:
            await self.keys.holders()
        except StoreUnreadableError:
            if not self._is_loopback or self.keys.had_keys or not self.keys.was_read:
                raise
            return LOCAL_READER  # it had no keys, and answers need no store
        return LOCAL if self._is_loopback and not self.keys.had_keys else NEEDS_KEY

    def _of_stored(self, stored: StoredKey, authenticated_by: str) -> Identity:
        now = time.time()
        if not stored.works(now):
            return "this key has expired" if stored.revoked_at is None else "this key was revoked"
        self.keys.note_use(stored, now)
        return Caller(authenticated_by, Scope(stored.scope), stored.key_id, stored.name)


LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
# Headers that may occur at most once, since it is unclear which of two would count.
_ONCE = ("host", "authorization", "content-length", "origin")
_OWN_SITE = ("same-origin", "none")
# Values of Sec-Fetch-Dest for a page opened in a tab; a frame in another site's page has another value.
_TABS = ("", "document")
# Headers that proxies add; any of them shows that a request was forwarded.
_OF_PROXIES = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
_HOST = re.compile(r"(?P<name>\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
# A client rarely mistypes a key twenty times.
_WRONG_KEYS = RateLimitItemPerSecond(20, 10, namespace="wrong-keys")
# Limits for one address without a key; one page loads about ten files.
_TURNS_PER_SECOND, _TURNS_AT_ONCE, _LONGEST_TURN_SECONDS = 50.0, 20, 10.0
_MOST_ADDRESSES = 4096
_WINDOW_SECONDS = 2


class RateLimits:
    """The rate limits of one worker process; `per_second` 0 means no limit."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        # Counted in windows of two seconds, or longer ones where two seconds allow less than one request.
        amount, seconds = int(per_second * _WINDOW_SECONDS), _WINDOW_SECONDS
        if per_second and amount < 1:
            amount, seconds = 1, math.ceil(1 / per_second)
        self._item = RateLimitItemPerSecond(amount, seconds) if per_second else None
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._turns: dict[str, float] = {}  # monotonic time of each address's last turn

    async def count(self, visit: Visit) -> None:
        """Count a request for its key, or else its address. Raises `Problem` 429 above the limit."""
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
        """Delay a request without a key until its turn comes. An address gets `_TURNS_PER_SECOND` turns,
        evenly spaced, over all its connections, so that it slows other clients down little. Raises `Problem`
        429, after a pause, if the wait would exceed `_LONGEST_TURN_SECONDS`."""
        if self._item is None:
            return
        now, client = time.monotonic(), client_network(visit.address)
        if len(self._turns) > _MOST_ADDRESSES:
            self._turns = {address: last for address, last in self._turns.items() if last > now}
        last = max(self._turns.get(client, 0.0), now - _TURNS_AT_ONCE / _TURNS_PER_SECOND)
        next_turn = last + 1 / _TURNS_PER_SECOND
        if next_turn - now > _LONGEST_TURN_SECONDS:
            # The pauses differ, so that hundreds of clients do not all come back at once.
            await asyncio.sleep(_LONGEST_TURN_SECONDS * random.uniform(1, 2))
            raise _too_often(1, f"{_TURNS_PER_SECOND:g} a second without a key")
        self._turns[client] = next_turn
        await asyncio.sleep(max(0.0, next_turn - now))

    async def count_wrong_key(self, visit: Visit) -> None:
        """Count a request whose key does not work. Raises `Problem` 429 for too many of them."""
        client = client_network(visit.address)
        if not await self._limiter.hit(_WRONG_KEYS, client):
            raise _too_often(_WRONG_KEYS.multiples, "2 a second without a key that works")


class Gate:
    """ASGI middleware before the routes; it refuses a request by raising a `Problem`."""

    def __init__(
        self, app: ASGIApp, settings: Settings, authenticator: Authenticator, rates: RateLimits
    ) -> None:
        self._app, self._authenticator, self._rates = app, authenticator, rates
        self._is_loopback = settings.is_loopback
        # None accepts any host name. That is safe on an address other than loopback: there every request
        # needs a key, which a foreign page does not have.
        public = [host_name(host) for host in settings.public_hosts]
        self._names = LOCAL_NAMES.union(public) if self._is_loopback or public else None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass a request on, redirect a browser to the login, or raise a `Problem`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = Visit.of(scope)
        try:
            answer = await self._admit(visit)
        finally:
            if visit.caller is None:  # refusals take time as well, so they are spaced too
                await self._rates.turn(visit)
        await (answer or self._app)(scope, receive, send)

    async def _admit(self, visit: Visit) -> Response | None:
        """None if the request may pass, or else the redirect to the login. Raises `Problem`."""
        self._check_headers(visit)
        if visit.is_open:  # works even if the keys cannot be read
            return None
        try:
            identity = await self._authenticator.identify(visit)
        except StoreUnreadableError:
            detail = "the store of keys cannot be read at the moment"
            raise Problem(503, "keys-unreadable", detail, retry=5) from None
        caller = identity if isinstance(identity, Caller) else None
        if caller and caller.authenticated_by == "loopback" and _is_forwarded(visit):
            hint = "make one: advisor keys add NAME --scope read"
            raise Problem(403, "forwarded", "a proxy forwards this to a service without keys", hint=hint)
        if visit.path == "/metrics" and self._is_loopback and not _is_forwarded(visit):
            caller = caller or LOCAL_READER
        if caller is None:
            return await self._refuse_stranger(visit, str(identity))
        if caller.authenticated_by == "session" and visit.changes and not is_own_page(visit):
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
            hint = "use localhost, or start it with --public-host NAME"
            detail = Message("this service has no name '{host}'", host=host[:100])
            raise Problem(421, "unknown-host", detail, hint=hint)
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
    """The name in a Host header, in lower case and without the port: '[::1]:8765' -> '[::1]'.

    The result is '' if something other than a port follows the name ('localhost:@evil.example')."""
    match = _HOST.fullmatch(host)
    return match["name"].rstrip(".").lower() if match else ""


def is_foreign_page(visit: Visit) -> bool:
    """True if the browser's headers say that another site's page sent this request. Following a link to this
    service does not count. Embedding does: an <img> here could make the service compute for seconds."""
    site = visit.headers.get("sec-fetch-site")
    if site and site not in _OWN_SITE:
        navigates = visit.headers.get("sec-fetch-mode") == "navigate"
        in_tab = visit.headers.get("sec-fetch-dest", "") in _TABS
        return visit.changes or not navigates or not in_tab
    if site:  # the site is ours; Origin is no help, as our Referrer-Policy makes it 'null' for forms
        return False
    return "origin" in visit.headers and not _is_own_origin(visit)


def is_own_page(visit: Visit) -> bool:
    """True if the browser's headers say that this service's page sent the request (sessions require it)."""
    site = visit.headers.get("sec-fetch-site")
    return site == "same-origin" if site else _is_own_origin(visit)


def foreign_page() -> Problem:
    """A 403 problem for a request from another site's page."""
    hint = "use the page of this service, or a program"
    return Problem(403, "foreign-origin", "a browser sent this from another site's page", hint=hint)


def _is_own_origin(visit: Visit) -> bool:
    """True if the Origin header has the scheme, host and port of this very request."""
    own = f"{visit.scope.get('scheme', 'http')}://{visit.headers.get('host', '')}"
    return visit.headers.get("origin", "").lower() == own.lower()


def _is_forwarded(visit: Visit) -> bool:
    return any(name in visit.headers for name in _OF_PROXIES)


def _too_often(seconds: int, policy: str) -> Problem:
    detail = Message("more requests than allowed ({policy})", policy=policy)
    hint = Message("come back in {seconds} s; `advisor serve --rate-limit` allows more", seconds=seconds)
    return Problem(429, "too-often", detail, hint=hint, retry=seconds)
