"""A sweep's interface to the store; `advisor.store` implements it, tests/contracts/test_stores.py checks it.

A trial has one row, durable when the call returns. An existing row stays unless a method says otherwise.
Rows are returned in the order in which they were first written. Any number of processes may read and write
at once. Every call is atomic: after a `DataError` nothing of the call was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Protocol

from msgspec import Struct

from advisor.domain import Measurement
from advisor.sweeps.trial.ownership import Owner

_AT_ONCE = 500  # names in one query; SQLite takes 32,766, older ones 999
Combine = Callable[[Measurement | None, Measurement], Measurement | None]


class Appended(Struct, frozen=True):
    """The number of new rows, and of rows that replaced a worse one."""

    added: int
    replaced: int


class Damaged(Struct, frozen=True):
    """A row that cannot be read; `reason` names the row, the fault and the remedy."""

    trial_id: str
    reason: str


class Summary(Struct, frozen=True):
    """Facts of a row without its measurement."""

    status: str
    started_at: str


class Stored(Struct, frozen=True):
    """The rows that can be read, in order, and those that cannot."""

    measurements: tuple[Measurement, ...]
    damaged: tuple[Damaged, ...]


class Held(Struct, frozen=True):
    """A lease in force: the process that measures a trial, and the seconds until the lease lapses.

    `seconds_held` counts from the trial's start, and is None while it waits for a node. `here`: the process
    runs on this machine (and in this container)."""

    trial_id: str
    host: str
    pid: int
    seconds_left: float
    seconds_held: float | None = None
    label: str = ""
    here: bool = False

    @property
    def driver(self) -> str:
        """The machine and the process, as text."""
        return f"{self.host} (process {self.pid})"


class LeaseBook(Protocol):
    """Drivers' leases on trials, timed by the database's clock.

    A lease ends when it is given back, when it is not renewed in time, or at once when its process on this
    machine has ended."""

    def take(self, labels: Mapping[str, str], owner: Owner) -> set[str]:
        """Lease those of the trials that nobody else measures; returns their ids."""

    def begin(self, trial_id: str, owner: Owner, label: str) -> None:
        """Mark the owner's trial as running; does nothing while the database is unreachable."""

    def renew(self, owner: Owner) -> None:
        """Restart the time limit of all the owner's leases."""

    def give_back(self, owner: Owner, trial_ids: Iterable[str] | None = None) -> None:
        """End these leases of the owner, by default all."""

    def held(self) -> dict[str, Held]:
        """The leases in force, by trial_id."""


class MeasurementStore(Protocol):
    """The measurements of trials; the rules at the top of this module hold."""

    @property
    def leases(self) -> LeaseBook:
        """The leases: which process measures which trial."""

    def append_all(self, measurements: Sequence[Measurement], *, since: datetime | None = None) -> Appended:
        """Store all measurements, or none if anything fails.

        A measurement that ended `ok` replaces a row that did not, and a row all of whose runs it has besides
        others. If it began at `since` (aware) or later, it also replaces a row that began before; that row
        moves to the `earlier`. Every other row stays."""

    def join(self, fresh: Measurement, combine: Combine, *, owner: Owner | None = None) -> Measurement | None:
        """Replace the trial's row by `combine(row, fresh)` and end the owner's lease, both or neither.
        Returns the new row; `row` is None if there is no readable one.

        Returns None, and keeps the row, if `combine` returns None, or if the owner has lost its lease and
        another process stored the trial first.

        A good measurement that is replaced moves to the `earlier`."""

    def summaries(self, trial_ids: Iterable[str] | None = None) -> dict[str, Summary]:
        """Summaries of these trials (by default all) that have a row, by trial_id."""

    def read(self, trial_ids: Iterable[str] | None = None) -> Stored:
        """The rows of these trials (by default all), with damaged ones listed separately."""

    def earlier(self, trial_ids: Iterable[str] | None = None) -> list[Measurement]:
        """Replaced measurements of these trials (by default all), in order, without unreadable ones."""

    def all(self) -> list[Measurement]:
        """Every measurement. Raises `DataError` that names the first row that cannot be read."""


def in_parts(names: Iterable[str]) -> Iterator[list[str]]:
    """The names in lists that are short enough for one query."""
    left = iter(names)
    while part := list(islice(left, _AT_ONCE)):
        yield part
