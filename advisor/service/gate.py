"""The gate before the routes: by which name, from which page, by whom and how often.

Host: a page of a stranger may point a name of its own at 127.0.0.1 (DNS rebinding) and then read answers as
if they were its own; the Host header has that name, so only our names are taken. Origin and Sec-Fetch-Site: a
page of a stranger may send a request here without reading the answer; browsers say so, and programs that are
no browser send neither. CORS stays closed.

A caller is recognised by a key, by a session's cookie, or by being on this machine while there are no keys,
before a route is reached; each route under /v1 names the scope that it needs. Each worker process reads the
(small) tables of keys in a thread of its own. What it read is used for `FRESH_SECONDS`; from half of that on
the next is fetched meanwhile, so that under load no request waits for it. A key that is not there is looked
for once more: it may be new. Where the store cannot be read, the last reading is used for `STALE_SECONDS`,
and then nobody gets in."""

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
from msgspec import Struct
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from advisor.errors import AdvisorError
from advisor.messages import Message
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.service.visits import LOCAL, LOCAL_READER, Caller, Visit, client_network, unauthorized
from advisor.store.keys import ApiKeys, Holders, Scope, StoredKey, digest_of, key_id_of

COOKIE = "advisor_session"
FRESH_SECONDS = 1.0
STALE_SECONDS = 10.0
# When a key was used is noted so often at most: never a write for each request.
USE_NOTED_EVERY_SECONDS = 900.0
_READING_SECONDS = 1.0
_SECONDS_BETWEEN_READINGS = 0.1
# Waiting for a database that is away is of no use to a client that waits for an answer.
_STORE_PATIENCE_SECONDS = 0.5
_BEARER = "bearer "
_LOG = logging.getLogger("advisor.service")


class StoreUnreadableError(Exception):
    """The keys cannot be read, and the last reading is too old."""


class KeyCache:
    """Keys and sessions of the store, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.database_url
        self._book: ApiKeys | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._holders = Holders({}, {})
        # Of the monotonic clock: when the last reading that succeeded, and the last of all, began.
        self._read_at = self._began_at = -float("inf")
        self._reading: asyncio.Task[None] | None = None
        self._used_at: dict[str, float] = {}
        # Whether the store has, or had while this process ran, any key: a file that is removed
        # does not open the door.
        self.had_keys = self.was_read = False

    async def holders(self, *, since: float = -float("inf")) -> Holders:
        """The keys and sessions of the store, no older than `FRESH_SECONDS`, or read after `since`
        (monotonic).

        `StoreUnreadableError` where that cannot be had."""
        now = time.monotonic()
        age = now - self._read_at
        if self._read_at >= since and age < FRESH_SECONDS:
            if age > FRESH_SECONDS / 2:
                self._start_reading()
            return self._holders
        is_reading = self._reading is not None and not self._reading.done()
        failed = self._began_at > self._read_at and not is_reading
        if not failed or now - self._began_at >= FRESH_SECONDS:
            if age < _SECONDS_BETWEEN_READINGS:  # strangers cause few readings
                await asyncio.sleep(_SECONDS_BETWEEN_READINGS - age)
            reading = self._start_reading()
            patience = self._began_at + _READING_SECONDS - time.monotonic()  # nobody waits for one that hangs
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(reading), patience)
        if time.monotonic() - self._read_at > STALE_SECONDS:
            raise StoreUnreadableError
        return self._holders

    def note_use(self, key: StoredKey, now: float) -> None:
        """Write into the store, some time, that the key was used at `now` (seconds since 1970)."""
        latest = max(key.last_used_at or 0.0, self._used_at.get(key.key_id, 0.0))
        if now - latest >= USE_NOTED_EVERY_SECONDS:
            self._used_at[key.key_id] = now
            self._thread.submit(self._write_use, key.key_id, now)

    def close(self) -> None:
        """End the thread, and give the connections back."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._book is not None:
            self._book.close()

    def _start_reading(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._began_at = time.monotonic()
            self._reading = asyncio.create_task(self._read())
        return self._reading

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
                self._book.used({key_id: moment})


class Identity(Struct, frozen=True):
    """A caller, or the reason why there is none."""

    caller: Caller | None
    reason: str = "this needs a key"


class Authenticator:
    """Recognises callers by the keys of the store."""

    def __init__(self, settings: Settings) -> None:
        self.keys = KeyCache(settings)
        self._is_loopback = settings.is_loopback

    async def identify(self, visit: Visit) -> Identity:
        """The identity behind a request. `StoreUnreadableError` where that cannot be known."""
        authorization = visit.headers.get("authorization")
        if authorization:
            is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
            return await self.of_key(authorization[len(_BEARER) :].strip() if is_bearer else "")
        token = cookie_parser(visit.headers.get("cookie", "")).get(COOKIE)
        return await self._of_session(token) if token else await self._of_machine()

    async def of_key(self, key: str) -> Identity:
        """The identity behind a key."""
        key_id = key_id_of(key)
        if key_id is None:
            return Identity(None, "this is no key of this service")
        stored = (await self.keys.holders()).keys.get(key_id)
        if stored is None:
            stored = (await self.keys.holders(since=time.monotonic())).keys.get(key_id)
        if stored is None or not stored.is_made_of(key):
            return Identity(None, "this key is not known")
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
        return local if local.caller else Identity(None, "this login has ended")

    async def _of_machine(self) -> Identity:
        try:
            await self.keys.holders()
        except StoreUnreadableError:
            if not self._is_loopback or self.keys.had_keys or not self.keys.was_read:
                raise
            return Identity(LOCAL_READER)  # it had no keys, and answers need no store
        return Identity(LOCAL if self._is_loopback and not self.keys.had_keys else None)

    def _of_stored(self, stored: StoredKey, by: str) -> Identity:
        now = time.time()
        if not stored.works(now):
            ended = stored.revoked_at is not None
            return Identity(None, "this key was revoked" if ended else "this key has expired")
        self.keys.note_use(stored, now)
        return Identity(Caller(by, Scope(stored.scope), stored.key_id, stored.name))


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
        # Two seconds' requests in two seconds; of less than one in that time, one in so long.
        amount, seconds = int(per_second * _WINDOW_SECONDS), _WINDOW_SECONDS
        if per_second and amount < 1:
            amount, seconds = 1, math.ceil(1 / per_second)
        self._item = RateLimitItemPerSecond(amount, seconds) if per_second else None
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
        # Anywhere but on loopback it is reached under any name, unless names were given: there every request
        # needs a key, which a stranger's page does not have.
        public = [host_name(host) for host in settings.public_hosts]
        self._names = LOCAL_NAMES.union(public) if self._is_loopback or public else None

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
            detail = "the store of keys cannot be read at the moment"
            raise Problem(503, "keys-unreadable", detail, retry=5) from None
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


def _too_often(seconds: int, policy: str) -> Problem:
    detail = Message("more requests than allowed ({policy})", policy=policy)
    hint = Message("come back in {seconds} s; `advisor serve --rate-limit` allows more", seconds=seconds)
    return Problem(429, "too-often", detail, hint=hint, retry=seconds)
