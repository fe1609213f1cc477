"""A clock that takes no time, and tells those who wait for a moment when it has come."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
Happens = Callable[[], None]


class FakeClock:
    """`sleep` lets time pass at once; what was planned happens at its own moment on the way."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._planned: list[tuple[datetime, int, Happens]] = []
        self._count = 0
        self._turns = threading.Lock()

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        until = self._now + timedelta(seconds=seconds)
        while first := self._next(until):
            first()
        self._now = max(self._now, until)

    def _next(self, until: datetime) -> Happens | None:
        """What happens next until then, once, whoever of several threads waits for it."""
        with self._turns:
            due = [entry for entry in self._planned if entry[0] <= until]
            if not due:
                return None
            first = min(due, key=lambda entry: entry[:2])
            self._planned.remove(first)
            self._now = max(self._now, first[0])
            return first[2]

    def at(self, moment: datetime, happens: Happens) -> None:
        """Have something happen then."""
        self._count += 1
        self._planned.append((moment, self._count, happens))

    def forget(self) -> None:
        """Nothing that was planned happens."""
        self._planned.clear()

    def naive(self) -> datetime:
        """As moto's `utcnow` tells it."""
        return self._now.replace(tzinfo=None)
