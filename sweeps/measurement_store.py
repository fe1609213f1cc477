"""The store that a sweep needs, kept by `advisor.store`; `tests/contracts/test_stores.py` holds it to this.

One row a trial, durable when the call returns. A trial that has a row keeps it unless something else is asked
for. Rows come back in the order in which they were first written. Any number of processes read and write at
once. What fails, fails whole: a `DataError` means that nothing of that call was kept."""

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
    """The numbers of new rows, and of rows that took the place of one that knew less."""

    added: int
    replaced: int


class Damaged(Struct, frozen=True):
    """A row that cannot be read; `reason` says which, why, and what to do."""

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
    """A lease in force: who measures the trial, since when it runs and for how long at least.

    `seconds_held` counts from when the trial began, and is None while it waits for a node. `here`: its
    process is one of this machine (and container)."""

    trial_id: str
    host: str
    pid: int
    seconds_left: float
    seconds_held: float | None = None
    label: str = ""
    here: bool = False

    @property
    def driver(self) -> str:
        """The machine and the process, in words."""
        return f"{self.host} (process {self.pid})"


class LeaseBook(Protocol):
    """Leases of trials among drivers, by the database's clock.

    A lease ends when it is given back, when it is not renewed in time, and at once when the process that took
    it on this very machine has gone."""

    def take(self, labels: Mapping[str, str], owner: Owner) -> set[str]:
        """Takes those of the trials that nobody else measures."""

    def begin(self, trial_id: str, owner: Owner, label: str) -> None:
        """Marks the owner's trial as running; lost silently while the database is away."""

    def renew(self, owner: Owner) -> None:
        """All leases of the owner count from now."""

    def give_back(self, owner: Owner, trial_ids: Iterable[str] | None = None) -> None:
        """End these leases of the owner, by default all."""

    def held(self) -> dict[str, Held]:
        """The leases in force, by trial_id."""


class MeasurementStore(Protocol):
    """See the rules above."""

    @property
    def leases(self) -> LeaseBook:
        """The book of who measures which trial."""

    def append_all(self, measurements: Sequence[Measurement], *, since: datetime | None = None) -> Appended:
        """Keep all of them, or none when anything fails.

        A row gives way to one that ended `ok` where it did not, and to one that has all its runs and more;
        one that began before `since` (aware) also to one that ended `ok` and did not, and is kept among the
        `earlier` then. Every other row stays."""

    def join(self, fresh: Measurement, combine: Combine, *, owner: Owner | None = None) -> Measurement | None:
        """Make `combine(row, fresh)` the trial's row (`row` is None where there is none, or none that can be
        read) and end the owner's lease on it, both or neither. Returns the new row.

        None, and the row stays as it is, when `combine` says so, or when the owner has lost its lease and
        somebody else stored the trial first.

        A good measurement that another one takes the place of is kept among the `earlier`."""

    def statuses(self) -> dict[str, str]:
        """The status of every trial that has a row, by trial_id."""

    def summaries(self, trial_ids: Iterable[str] | None = None) -> dict[str, Summary]:
        """Summaries of the trials (by default all) that have a row, by trial_id."""

    def read(self, trial_ids: Iterable[str] | None = None) -> Stored:
        """Every row, or those of these trials; damaged ones apart."""

    def earlier(self, trial_ids: Iterable[str] | None = None) -> list[Measurement]:
        """Replaced measurements of these trials (None: all), in order; unreadable ones left out."""

    def all(self) -> list[Measurement]:
        """Every measurement; `DataError` names the first row that cannot be read."""


def in_parts(names: Iterable[str]) -> Iterator[list[str]]:
    """The names, as many at once as a query takes."""
    left = iter(names)
    while part := list(islice(left, _AT_ONCE)):
        yield part
