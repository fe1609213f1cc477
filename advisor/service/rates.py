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
        """Return when a request without a key has its turn: so many a second of an address, evenly,
        however many connections it holds, so that all others lose little time to it. `Problem` 429,
        after a while, where too many of it wait already."""
        if self._item is None:
            return
        now, client = time.monotonic(), client_network(visit.address)
        if len(self._turns) > _MOST_ADDRESSES:
            self._turns = {one: last for one, last in self._turns.items() if last > now}
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
