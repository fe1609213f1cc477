"""Time as it is, or as a test has it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol

# How soon somebody who waits long hears that he is to leave.
_NOTICED_AFTER_SECONDS = 1.0


class Clock(Protocol):
    """What waits and what dates; tests have one that takes no time."""

    def now(self) -> datetime:
        """The time, aware, UTC."""

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        """The time, aware, UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class LeavingClock:
    """Of a thread that Ctrl-C does not reach: its next wait is interrupted once `stop` is set, as
    the main thread's would be. What is waited for after that, on the way out, is waited for."""

    def __init__(self, clock: Clock, stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._leaves = False

    def now(self) -> datetime:
        """The time, aware, UTC."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait; raises `KeyboardInterrupt`, once."""
        left = seconds
        while left > 0:
            if self._stop.is_set() and not self._leaves:
                self._leaves = True
                raise KeyboardInterrupt
            part = left if self._leaves else min(left, _NOTICED_AFTER_SECONDS)
            self._clock.sleep(part)
            left -= part
