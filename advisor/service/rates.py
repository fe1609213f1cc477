"""How often each client may ask, by the package `limits`."""

from __future__ import annotations

import asyncio
import math
import random
import time

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter

from advisor.messages import Message
from advisor.service.access import Visit, client_network
from advisor.service.problems import Problem

# A client rarely mistypes a key twenty times.
_WRONG_KEYS = RateLimitItemPerSecond(20, 10, namespace="wrong-keys")
# A page's files are ten requests; who watches the service asks every second.
_OPEN = RateLimitItemPerSecond(100, 2, namespace="open")
_HELD_BACK_SECONDS = 2.0
_WINDOW_SECONDS = 2


class RateLimits:
    """The limits of one worker process; `per_second` 0 is none."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._item = _window(per_second) if per_second else None
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

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

    async def count_open(self, visit: Visit) -> None:
        """One request more for what needs no key. `Problem` 429 for too many, after a while: who
        never waits gets nothing faster, and all others lose little time to it."""
        if self._item is None or await self._limiter.hit(_OPEN, client_network(visit.address)):
            return
        # Each for a time of its own: hundreds that come back at once would be a burst.
        await asyncio.sleep(_HELD_BACK_SECONDS * random.uniform(1, 3))
        raise _too_often(_OPEN.multiples, "50 a second without a key")

    async def count_wrong_key(self, visit: Visit) -> None:
        """One request more without a key that works; `Problem` 429 for too many."""
        client = client_network(visit.address)
        if not await self._limiter.hit(_WRONG_KEYS, client):
            raise _too_often(_WRONG_KEYS.multiples, "2 a second without a key that works")


def _window(per_second: float) -> RateLimitItem:
    """Two seconds' requests in two seconds; of less than one in that time, one in so long."""
    amount = int(per_second * _WINDOW_SECONDS)
    if amount >= 1:
        return RateLimitItemPerSecond(amount, _WINDOW_SECONDS)
    return RateLimitItemPerSecond(1, math.ceil(1 / per_second))


def _too_often(seconds: int, policy: str) -> Problem:
    return Problem(
        429, "too-often", Message("more requests than allowed ({policy})", policy=policy),
        hint=Message("come back in {seconds} s; `advisor serve --rate-limit` allows more",
                     seconds=seconds),
        headers={"Retry-After": str(seconds)},
    )  # fmt: skip
