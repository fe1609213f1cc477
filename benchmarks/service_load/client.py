"""A client that keeps some connections busy, or sends at a steady pace; cheap, since it shares the
cores with what it measures."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Answers(Struct):
    """What came back: seconds of each answer, how often each status, bytes in all, and the seconds
    of the whole run."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    received_bytes: int = 0
    elapsed_seconds: float = 0.0

    def add(self, others: Answers) -> None:
        """Those of another run, too."""
        self.seconds += others.seconds
        self.statuses += others.statuses
        self.received_bytes += others.received_bytes
        self.elapsed_seconds += others.elapsed_seconds

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.elapsed_seconds

    def waits(self) -> dict[str, Any]:
        """Percentiles in milliseconds, JSON-ready."""
        cuts = statistics.quantiles(self.seconds, n=100, method="inclusive")
        return {
            "p50_ms": 1000 * cuts[49],
            "p99_ms": 1000 * cuts[98],
            "most_ms": 1000 * max(self.seconds),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
        }


class _Connection(asyncio.Protocol):
    """One request after the other."""

    def __init__(self, answers: Answers, on_answer: Callable[[_Connection], None]) -> None:
        self._answers, self._on_answer = answers, on_answer
        self._due = 0.0
        self._parts: list[bytes] = []
        self._missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes, due: float) -> None:
        """Its answer counts from `due` on."""
        self._due = due
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
            self._answers.statuses[int(whole[9:12])] += 1
        self._missing -= len(data)
        self._answers.received_bytes += len(data)
        if self._missing == 0:
            self._answers.seconds.append(time.perf_counter() - self._due)
            self._parts, self._missing = [], -1
            self._on_answer(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._missing >= 0 or error:
            self._answers.statuses[0] += 1

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


async def at_full_speed(port: int, requests: Iterator[bytes], connections: int, count: int) -> Answers:
    """`count` requests over so many connections, each sent when the last one is answered."""
    answers, done = Answers(), asyncio.get_running_loop().create_future()
    left = count

    def go_on(connection: _Connection) -> None:
        nonlocal left
        if len(answers.seconds) >= count and not done.done():
            done.set_result(None)
        if left > 0:
            left -= 1
            connection.send(next(requests), time.perf_counter())

    return await _run(port, answers, connections, go_on, done)


async def at_a_pace(
    port: int, requests: Iterator[bytes], connections: int, count: int, per_second: float
) -> Answers:
    """`count` requests, so many a second, whatever is answered meanwhile: what waits for a free
    connection waits since it was due, so that a slow answer cannot hide the next ones."""
    answers, done = Answers(), asyncio.get_running_loop().create_future()
    free: deque[_Connection] = deque()
    waiting: deque[float] = deque()

    def go_on(connection: _Connection) -> None:
        if len(answers.seconds) >= count and not done.done():
            done.set_result(None)
        if waiting:
            connection.send(next(requests), waiting.popleft())
        else:
            free.append(connection)

    async def keep_pace() -> None:
        begun = time.perf_counter()
        for number in range(count):
            due = begun + number / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if free:
                free.popleft().send(next(requests), due)
            else:
                waiting.append(due)

    pace = asyncio.create_task(keep_pace())
    try:
        return await _run(port, answers, connections, go_on, done)
    finally:
        await pace


async def _run(
    port: int,
    answers: Answers,
    connections: int,
    go_on: Callable[[_Connection], None],
    done: asyncio.Future[None],
) -> Answers:
    loop, opened = asyncio.get_running_loop(), []
    for _ in range(connections):
        _, connection = await loop.create_connection(lambda: _Connection(answers, go_on), "127.0.0.1", port)
        opened.append(connection)
    begun = time.perf_counter()
    for connection in opened:
        go_on(connection)
    await done
    answers.elapsed_seconds = time.perf_counter() - begun
    for connection in opened:
        connection.close()
    return answers
