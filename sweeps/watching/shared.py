"""The state of sweeps in the shared store, for other processes: counts, leases, pace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Protocol

from msgspec import Struct

from advisor.quantities import moment_of
from advisor.sweeps.measurement_store import Held, Summary
from advisor.sweeps.trial.trial_process import TIMEOUT_SECONDS

_LATEST = 20
_FEWEST = 3


class Readable(Protocol):
    """The part of a store that other processes read."""

    @property
    def name(self) -> str:
        """The store's name in messages."""

    def summaries(self, trial_ids: Iterable[str] | None = None) -> dict[str, Summary]:
        """Summaries of these trials (by default all) that have a row, by trial_id."""

    def running(self) -> dict[str, Held]:
        """The leases in force."""


class Pace(Struct, frozen=True, kw_only=True):
    """The rate at which trials began lately: `trials` of them in `seconds`."""

    trials: int
    seconds: float

    @property
    def seconds_a_trial(self) -> float:
        """Mean seconds between the starts of two trials, over all drivers."""
        return self.seconds / (self.trials - 1)


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of a store at one moment. `total` and `left` count the given trials, or else all that are
    stored, running, or `submitted` and not begun. `pace` is None if too few trials have begun."""

    at: datetime
    database: str
    total: int
    counts: Mapping[str, int]
    running: tuple[Held, ...]
    submitted: int = 0
    pace: Pace | None

    @property
    def left(self) -> int:
        """The number of trials without a row, including running and submitted ones."""
        return self.total - sum(self.counts.values())

    @property
    def is_over(self) -> bool:
        """Whether no trial is left, running or submitted."""
        return not self.left and self.is_idle

    @property
    def is_idle(self) -> bool:
        """Whether no trial is running or submitted."""
        return not (self.running or self.submitted)

    @property
    def expected_end(self) -> datetime | None:
        """The expected end at the present pace; None without a pace, or if no trial runs."""
        if self.pace is None or not self.running or not self.left:
            return None
        try:
            return self.at + timedelta(seconds=self.left * self.pace.seconds_a_trial)
        except OverflowError:
            return None


def look_at(
    store: Readable, trial_ids: Collection[str] | None = None, damaged: Collection[str] = frozenset()
) -> Snapshot:
    """The state of these trials (None: all); `damaged` rows do not count."""
    held = store.running()  # read first: a trial that is stored meanwhile still counts as done
    result = store.summaries(trial_ids)
    rows = {name: row for name, row in result.items() if name not in damaged}
    # A trial that has a row and a lease (a repeat, a retry) is counted by its row.
    mine = held if trial_ids is None else {entry: held[entry] for entry in set(trial_ids) & held.keys()}
    running = [entry for entry in mine.values() if entry.seconds_held is not None]
    names = set(rows) | set(mine if trial_ids is None else trial_ids)
    return Snapshot(
        at=datetime.now(UTC),
        database=store.name,
        total=len(names),
        counts=dict(Counter(row.status for row in rows.values()).most_common()),
        running=tuple(sorted(running, key=lambda entry: (-(entry.seconds_held or 0), entry.host))),
        submitted=len(mine) - len(running),
        pace=pace_of([row.started_at for row in rows.values()]),
    )


def pace_of(started_at: Iterable[str]) -> Pace | None:
    """The pace of trials since the last gap that is longer than any trial."""
    moments = sorted(filter(None, map(moment_of, started_at)))[-_LATEST:]
    breaks = [n for n, (a, b) in enumerate(pairwise(moments), 1) if (b - a).total_seconds() > TIMEOUT_SECONDS]
    since = moments[breaks[-1] if breaks else 0 :]
    if len(since) < _FEWEST:
        return None
    seconds = (since[-1] - since[0]).total_seconds()
    return Pace(trials=len(since), seconds=seconds) if seconds > 0 else None
