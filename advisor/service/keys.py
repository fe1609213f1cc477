"""Who asks: recognised by a key, by a session's cookie, or by being on this machine while there are
no keys.

Each worker process reads the (small) tables of keys in a thread of its own. What it read is used
for `FRESH_SECONDS`; from half of that on the next is fetched meanwhile, so that under load no
request waits for it. A key that is not there is looked for once more: it may be new. Where the
store cannot be read, the last reading is used for `STALE_SECONDS`, and then nobody gets in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from msgspec import Struct
from starlette.requests import cookie_parser

from advisor.errors import AdvisorError
from advisor.service.access import LOCAL, LOCAL_READER, Caller, Visit
from advisor.service.access_keys import Scope, digest_of, is_of, key_id_of
from advisor.service.settings import Settings
from advisor.store.keys import ApiKeys, Holders, StoredKey

COOKIE = "advisor_session"
FRESH_SECONDS = 1.0
STALE_SECONDS = 10.0
# When a key was used is noted so often at most: never a write for each request.
USE_NOTED_EVERY_SECONDS = 900.0
_READING_SECONDS = 1.0
_SECONDS_BETWEEN_READINGS = 0.1
# Waiting for a database that is away is of no use to a client that waits for an answer.
_PATIENCE_SECONDS = 0.5
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
        self._read_at = -float("inf")  # of the monotonic clock, when that reading began
        self._began_at = self._failed_at = -float("inf")
        self._reading: asyncio.Task[None] | None = None
        self._used_at: dict[str, float] = {}
        # Whether the store has, or had while this process ran, any key: a file that is removed
        # does not open the door.
        self.had_keys = self.was_read = False

    async def holders(self, *, since: float | None = None) -> Holders:
        """What the store has, no older than `FRESH_SECONDS`, or read after `since` (monotonic).

        `StoreUnreadableError` where that cannot be had."""
        now = time.monotonic()
        age = now - self._read_at
        if (since is None or self._read_at >= since) and age < FRESH_SECONDS:
            if age > FRESH_SECONDS / 2:
                self._start_reading()
            return self._holders
        if self._reading and not self._reading.done() and now - self._began_at > _READING_SECONDS:
            return self._last()  # the store hangs: nobody waits for it again
        if now - self._failed_at < FRESH_SECONDS:
            return self._last()
        if since is not None and age < _SECONDS_BETWEEN_READINGS:
            await asyncio.sleep(_SECONDS_BETWEEN_READINGS - age)  # strangers cause few readings
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._start_reading()), _READING_SECONDS)
        return self._last()

    def _last(self) -> Holders:
        """The last reading; `StoreUnreadableError` where it is too old."""
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
            self._failed_at = time.monotonic()
            return
        self._read_at, self._failed_at, self.was_read = began, -float("inf"), True
        self.had_keys = self.had_keys or bool(self._holders.keys)

    def _fetch(self) -> Holders:
        if self._book is None:
            self._book = ApiKeys(self._url, reading=True, patience_seconds=_PATIENCE_SECONDS)
        return self._book.holders(now=time.time())

    def _write_use(self, key_id: str, moment: float) -> None:
        with suppress(AdvisorError):
            if self._book is not None:
                self._book.used({key_id: moment})


class Identity(Struct, frozen=True):
    """Who it is; without a caller, why not."""

    caller: Caller | None
    reason: str = "this needs a key"


class Authenticator:
    """Recognises callers by the keys of the store."""

    def __init__(self, settings: Settings) -> None:
        self.keys = KeyCache(settings)
        self._is_loopback = settings.is_loopback

    async def identify(self, visit: Visit) -> Identity:
        """Who sent this request. `StoreUnreadableError` where that cannot be known."""
        authorization = visit.headers.get("authorization")
        if authorization:
            is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
            return await self.of_key(authorization[len(_BEARER) :].strip() if is_bearer else "")
        token = cookie_parser(visit.headers.get("cookie", "")).get(COOKIE)
        return await self._of_session(token) if token else await self._of_machine()

    async def of_key(self, key: str) -> Identity:
        """Whose key that is."""
        key_id = key_id_of(key)
        if key_id is None:
            return Identity(None, "this is no key of this service")
        stored = (await self.keys.holders()).keys.get(key_id)
        if stored is None:
            stored = (await self.keys.holders(since=time.monotonic())).keys.get(key_id)
        if stored is None or not is_of(stored, key):
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
