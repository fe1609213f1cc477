"""The keys as a process knows them: read anew every second, so that a revoked one ends at once.

Each worker process reads the whole (small) tables in a thread of its own. What was read is used for
`FRESH_SECONDS`; from half of that on the next is fetched meanwhile, so that under load no request
waits for it. A key that is not there is looked for once more: it may have been made just now.
Where the store cannot be read, what is known is used for `STALE_SECONDS`, and then nobody gets in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from advisor.errors import AdvisorError
from advisor.runs.store.keys import ApiKeys, Holders, StoredKey

FRESH_SECONDS = 1.0
STALE_SECONDS = 10.0
_LOOK_SECONDS = 1.0
# When a key was used is noted so often at most: never a write for each request.
USE_NOTED_EVERY_SECONDS = 900.0
_LEAST_SECONDS_BETWEEN_LOOKS = 0.1
_LOG = logging.getLogger("advisor.service")


class StoreAway(Exception):
    """The keys cannot be read, and what is known of them is too old."""


class KeyRing:
    """Keys and sessions of the store, for one event loop."""

    def __init__(self, open_book: Callable[[], ApiKeys]) -> None:
        self._open_book = open_book
        self._book: ApiKeys | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._known = Holders({}, {})
        self._read_at = -float("inf")  # of the monotonic clock, when that reading began
        self._reading: asyncio.Task[None] | None = None
        self._noted: dict[str, float] = {}
        self._had_keys = False

    async def holders(self, *, since: float | None = None) -> Holders:
        """What the store has, no older than `FRESH_SECONDS`, or read after `since` (monotonic)."""
        now = time.monotonic()
        age = now - self._read_at
        if (since is None or self._read_at >= since) and age < FRESH_SECONDS:
            if age > FRESH_SECONDS / 2:
                self._read_meanwhile()
            return self._known
        if since is not None and age < _LEAST_SECONDS_BETWEEN_LOOKS:
            await asyncio.sleep(_LEAST_SECONDS_BETWEEN_LOOKS - age)  # strangers cause few looks
        await self._read_now()
        if time.monotonic() - self._read_at > STALE_SECONDS:
            raise StoreAway
        return self._known

    @property
    def had_keys(self) -> bool:
        """Whether the store has, or had while this process ran, any key: a file that is removed
        does not open the door."""
        return self._had_keys

    def note_use(self, key: StoredKey, now: float) -> None:
        """Remember in the store, some time, that the key was used at `now` (seconds since 1970)."""
        latest = max(key.last_used_at or 0.0, self._noted.get(key.key_id, 0.0))
        if now - latest < USE_NOTED_EVERY_SECONDS:
            return
        self._noted[key.key_id] = now
        self._thread.submit(self._write_use, key.key_id, now)

    def close(self) -> None:
        """End the thread, and give the connections back."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._book is not None:
            self._book.close()

    async def _read_now(self) -> None:
        task = self._read_meanwhile()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), _LOOK_SECONDS)

    def _read_meanwhile(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        begun = time.monotonic()
        loop = asyncio.get_running_loop()
        try:
            self._known = await loop.run_in_executor(self._thread, self._fetch)
        except AdvisorError as error:
            _LOG.warning("the keys cannot be read: %s", error)
            return
        self._read_at = begun
        self._had_keys = self._had_keys or bool(self._known.keys)

    def _fetch(self) -> Holders:
        if self._book is None:
            self._book = self._open_book()
        return self._book.holders(now=time.time())

    def _write_use(self, key_id: str, moment: float) -> None:
        with suppress(AdvisorError):
            if self._book is not None:
                self._book.used({key_id: moment})
