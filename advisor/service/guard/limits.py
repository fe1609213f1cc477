"""How often, how much and how many at once: what the settings allow a visit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from advisor.service.guard.rates import Buckets, place_of
from advisor.service.guard.refusals import too_often
from advisor.service.guard.visit import Visit
from advisor.service.guard.work import Line
from advisor.service.settings import Settings

# Wrong keys are no mistake that is made often.
_FAILURES_A_SECOND, _FAILURES_AT_ONCE = 2.0, 20.0
_BODY_SECONDS, _IMPORT_SECONDS = 20.0, 120.0
# Bodies that lie in memory while they are taken in.
_IMPORTS_AT_ONCE, _IMPORTS_WAITING = 2, 4
_IMPORTS = frozenset(("/v1/measurements/import", "/v1/measurements"))


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How many bytes within how many seconds; whether they are one JSON document."""

    most_bytes: int
    seconds: float
    is_one_document: bool = True


class Place:
    """A visit's place in a line: entered once, left once."""

    def __init__(self, line: Line | None) -> None:
        self._line = line
        self._entered = False

    async def enter(self) -> None:
        """Wait for it; `Problem` 503 where too many do."""
        if self._line is not None:
            await self._line.enter()
            self._entered = True

    def leave(self) -> None:
        """Give it back; again, nothing happens."""
        if self._entered and self._line is not None:
            self._entered = False
            self._line.leave()


class Limits:
    """The limits of one worker process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        rate = settings.rate_limit
        self._asked = Buckets(rate, max(1.0, 2 * rate)) if rate else None
        self._failed = Buckets(_FAILURES_A_SECOND, _FAILURES_AT_ONCE)
        self._policy = f'"default";q={2 * rate:g};w=2'
        self._answers = Line(settings.most_at_once, settings.most_waiting)
        self._imports = Line(_IMPORTS_AT_ONCE, _IMPORTS_WAITING)

    def count(self, visit: Visit) -> None:
        """Take a token of who asks: of the key, else of the address. `Problem` 429 without one."""
        if self._asked is None or visit.is_open:
            return
        key_id = visit.caller.key_id if visit.caller else None
        taken = self._asked.take(key_id or place_of(visit.address), time.monotonic())
        told = f'"default";r={taken.left};t={taken.wait_seconds:.0f}'
        visit.more_headers = (
            (b"ratelimit-policy", self._policy.encode()),
            (b"ratelimit", told.encode()),
        )
        if not taken.allowed:
            raise too_often(taken, f"{self._settings.rate_limit:g} a second")

    def count_failure(self, visit: Visit) -> None:
        """Somebody without a key, or with a wrong one: `Problem` 429 for too many."""
        taken = self._failed.take(place_of(visit.address), time.monotonic())
        if not taken.allowed:
            raise too_often(taken, f"{_FAILURES_A_SECOND:g} a second without a key that works")

    def place_of(self, visit: Visit) -> Place:
        """The line it waits in: none for what costs nothing or lasts."""
        if visit.is_open or visit.is_streamed or visit.path == "/metrics":
            return Place(None)
        return Place(self._imports if self._is_import(visit) else self._answers)

    def body_of(self, visit: Visit) -> BodyLimit:
        """How large its body may be."""
        if self._is_import(visit):
            return BodyLimit(self._settings.most_import_bytes, _IMPORT_SECONDS, False)
        return BodyLimit(self._settings.most_body_bytes, _BODY_SECONDS)

    def _is_import(self, visit: Visit) -> bool:
        return visit.method == "POST" and visit.path in _IMPORTS
