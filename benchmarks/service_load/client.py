"""A client that keeps some connections busy, or asks at a steady pace; cheap, since it shares the
cores with what it measures."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(slots=True)
class Heard:
    """What came back: seconds of each answer, its status, and bytes in all."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    received_bytes: int = 0


class _Connection(asyncio.Protocol):
    """One question after the other."""

    def __init__(self, heard: Heard, on_answer: Callable[[_Connection], None]) -> None:
        self.due = 0.0
        self._heard = heard
        self._on_answer = on_answer
        self._parts: list[bytes] = []
        self._missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes, due: float) -> None:
        """Send; the answer counts from `due` on."""
        self.due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        if self._missing < 0:
            whole = b"".join(self._parts)
            head = whole.find(_END_OF_HEAD)
            if head < 0:
                return
            at = whole[:head].lower().find(_LENGTH) + len(_LENGTH)
            length = int(whole[at : whole.find(b"\r", at)])
            self._missing = head + len(_END_OF_HEAD) + length - len(whole) + len(data)
            self._heard.statuses[int(whole[9:12])] += 1
        self._missing -= len(data)
        self._heard.received_bytes += len(data)
        if self._missing == 0:
            self._heard.seconds.append(time.perf_counter() - self.due)
            self._parts, self._missing = [], -1
            self._on_answer(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._missing >= 0 or error:
            self._heard.statuses[0] += 1

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


async def as_fast_as_it_goes(
    port: int, requests: Iterator[bytes], connections: int, count: int
) -> tuple[Heard, float]:
    """`count` questions over so many connections, each asked when its last one is answered; and
    the seconds that it took."""
    heard, done = Heard(), asyncio.get_running_loop().create_future()
    left = count

    def next_one(one: _Connection) -> None:
        nonlocal left
        if len(heard.seconds) >= count and not done.done():
            done.set_result(None)
        if left > 0:
            left -= 1
            one.ask(next(requests), time.perf_counter())

    some = [await _connected(port, heard, next_one) for _ in range(connections)]
    begun = time.perf_counter()
    for one in some:
        next_one(one)
    await done
    took = time.perf_counter() - begun
    for one in some:
        one.close()
    return heard, took


async def at_a_pace(
    port: int, requests: Iterator[bytes], connections: int, count: int, per_second: float
) -> tuple[Heard, float]:
    """`count` questions, so many a second, whatever is answered meanwhile: what waits for a free
    connection waits since it was due, so that a slow answer cannot hide the next ones."""
    heard, done = Heard(), asyncio.get_running_loop().create_future()
    free: list[_Connection] = []
    waiting: list[float] = []

    def next_one(one: _Connection) -> None:
        if len(heard.seconds) >= count and not done.done():
            done.set_result(None)
        if waiting:
            one.ask(next(requests), waiting.pop(0))
        else:
            free.append(one)

    free += [await _connected(port, heard, next_one) for _ in range(connections)]
    some, begun = list(free), time.perf_counter()
    for place in range(count):
        due = begun + place / per_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if free:
            free.pop(0).ask(next(requests), due)
        else:
            waiting.append(due)
    await done
    took = time.perf_counter() - begun
    for one in some:
        one.close()
    return heard, took


async def _connected(
    port: int, heard: Heard, on_answer: Callable[[_Connection], None]
) -> _Connection:
    loop = asyncio.get_running_loop()
    _, one = await loop.create_connection(lambda: _Connection(heard, on_answer), "127.0.0.1", port)
    return one
