"""Requests to clouds that end in time, whatever hangs, with one kind of error for all clouds."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from advisor.errors import LiveError

# Codes of errors by which programs decide whether to ask again.
NO_CREDENTIALS, THROTTLED = "no_credentials", "throttled"


def late(service: str) -> LiveError:
    """It accepted the question and stayed silent."""
    return LiveError("{service} did not answer in time", hint="ask again later", service=service)


def unreachable(service: str) -> LiveError:
    """No connection."""
    return LiveError("{service} cannot be reached from here", hint="ask without it", service=service)


def unreadable(service: str) -> LiveError:
    """An answer of another form than the service documents."""
    return LiveError("{service} answered what cannot be read", hint="is a proxy in between?", service=service)


Answer = TypeVar("Answer")


class Deadline:
    """Seconds that all asking together may take, and those of one question."""

    def __init__(self, seconds: float, each: float | None = None) -> None:
        self._end = time.monotonic() + seconds
        self._each = each or seconds

    def within(self, what: str, ask: Callable[[], Answer], *, each: float | None = None) -> Answer:
        """The answer, or the error, of `ask`; `LiveError` where the time is over before it.

        `each` is what this one question may take, where it is not as the others.
        """
        seconds = max(0.0, min(each or self._each, self._end - time.monotonic()))
        if seconds <= 0:
            raise LiveError("{what}: no time is left to ask for it", hint="ask again later", what=what)
        answers: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put((ask(), None))
            except BaseException as error:
                answers.put((None, error))

        # A daemon does not keep the program from ending.
        threading.Thread(target=work, daemon=True).start()
        try:
            answer, error = answers.get(timeout=seconds)
        except queue.Empty:
            raise LiveError(
                "{what} did not answer within {seconds:.0f} seconds",
                hint="ask again later",
                what=what,
                seconds=seconds,
            ) from None
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]


def each_within(seconds: float, what: str, answers: Iterable[Answer]) -> Iterator[Answer]:
    """Every answer of a slow iterator, none of which may take longer than this."""
    source = iter(answers)
    end: list[Answer] = []
    while True:
        entry = Deadline(seconds).within(what, lambda: list(_first(source)))
        if entry == end:
            return
        yield from entry


def _first(source: Iterator[Answer]) -> Iterator[Answer]:
    for entry in source:
        yield entry
        return
