"""Time as it is, or as a test has it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


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
