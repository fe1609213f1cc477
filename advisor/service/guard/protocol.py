"""uvicorn's HTTP protocol with limits on the head of a request, on its time, and on slow readers.

httptools takes headers of any number and size, and a client may send a byte an hour: each such
connection would keep memory and a file descriptor. A head has `HEAD_SECONDS` to arrive and
`MOST_HEAD_BYTES`; an answer that nobody reads ends after `UNREAD_SECONDS`.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from advisor.service.problems import Problem, problem_response

MOST_HEAD_BYTES = 16 * 1024
MOST_HEADERS = 64
HEAD_SECONDS = 10.0
UNREAD_SECONDS = 60.0


def _refusal(status: int, kind: str, detail: str) -> bytes:
    """An answer for who has not got as far as the application."""
    problem = problem_response(Problem(status, kind, detail))
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in problem.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + bytes(problem.body)


_TOO_LARGE = _refusal(
    431,
    "large-head",
    f"address and headers may have {MOST_HEAD_BYTES:,} bytes, and {MOST_HEADERS} headers",
)
_TOO_SLOW = _refusal(408, "slow-head", f"the headers were not there within {HEAD_SECONDS:g} s")


class _Refused(Exception):
    """Ends the parsing of a head that was refused."""


class CarefulProtocol(HttpToolsProtocol):
    """One connection. `_head_bytes` counts what came of a head that is not whole yet, and is None
    while a body comes; `_fields` and `_field_bytes` are what its headers have so far."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes: int | None = 0
        self._fields = self._field_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Who connects has to say something."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; a head that goes on is counted and timed."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._head_bytes:
            return
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
        elif self._head_timer is None:
            self._await_head()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._fields = self._field_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._field_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is whole."""
        self._fields += 1
        self._field_bytes += len(name) + len(value)
        if self._fields <= MOST_HEADERS and self._field_bytes <= MOST_HEAD_BYTES:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there: 431, or on to the application."""
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer = self._head_bytes = None
        if self._fields > MOST_HEADERS or self._field_bytes > MOST_HEAD_BYTES:
            self._refuse(_TOO_LARGE)
            raise _Refused
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes next is a head."""
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """For what is no HTTP; nothing where something else was answered already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """The client does not read: it has a minute to begin again."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().resume_writing()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._refuse, _TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _stop_timers(self) -> None:
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
