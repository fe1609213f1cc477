"""Candidates as columns, whatever they do: what every task's table has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Disk, Offer

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers

Objects = NDArray[Any]


class Columns(Protocol):
    """Candidates as columns (n,): `kind` numbers instance types, whose `names` these are, `option`
    numbers `offers()`."""

    @property
    def names(self) -> Objects:
        """Of the instance types."""

    @property
    def kind(self) -> Integers:
        """The instance type of each row."""

    @property
    def option(self) -> Integers:
        """The offer of each row."""

    @property
    def disk(self) -> Objects:
        """The disk of each row."""

    @property
    def count(self) -> Integers:
        """Instances."""

    @property
    def usd_each(self) -> Floats:
        """One instance and its disk, an hour."""

    @property
    def usd(self) -> Floats:
        """All instances and disks, an hour."""

    def offers(self) -> Sequence[Offer]:
        """What `option` numbers."""

    def offer(self, at: int, /) -> Offer:
        """A row's offer."""

    def take(self, rows: Integers | Booleans, /) -> Self:
        """Some of the rows."""

    def __len__(self) -> int: ...


class Option(Protocol):
    """One way to use an offer, with the disk that it takes."""

    @property
    def offer(self) -> Offer:
        """What is rented."""

    @property
    def disk(self) -> Disk:
        """What holds the data."""


def option_columns(options: Sequence[Option]) -> dict[str, Any]:
    """The columns of a table of options, one row each and one at least, that no task tells apart."""
    numbers: dict[tuple[str, str], int] = {}
    instances = [option.offer.instance for option in options]
    kind = [numbers.setdefault((one.cloud, one.name), len(numbers)) for one in instances]
    disks = np.empty(len(options), dtype=object)
    disks[:] = [option.disk for option in options]
    return {
        "options": options,
        "names": np.array([name for _, name in numbers], dtype=object),
        "kind": np.array(kind),
        "disk": disks,
        "usd_each": np.array(
            [option.offer.price.usd_per_hour + option.disk.usd_per_hour for option in options]
        ),
    }


def cheapest(table: Columns) -> int:
    """The row with the least total price; ties by name."""
    usd = table.usd
    rows = np.flatnonzero(usd == usd.min())
    return int(min(rows, key=lambda row: (table.names[table.kind[row]], row)))
