"""How many answers are computed at once: a few, the next wait in line, the rest are sent away."""

from __future__ import annotations

import asyncio

from advisor.service.problems import Problem

RETRY_SECONDS = 1


class Line:
    """At most `at_once` in hand, at most `waiting` in line, in the order in which they came."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most_waiting = waiting
        self._waiting = 0

    async def enter(self) -> None:
        """Take a place; `Problem` 503 where the line is full."""
        if self._free.locked():
            if self._waiting >= self._most_waiting:
                raise Problem(
                    503,
                    "busy",
                    "too many requests wait for an answer already",
                    way_out=f"ask again after {RETRY_SECONDS} s",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                )
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
            return
        await self._free.acquire()

    def leave(self) -> None:
        """Give the place back."""
        self._free.release()
