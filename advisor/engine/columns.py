"""The columns that the candidate tables of all tasks share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import Disk, Offer

Objects = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]


class Level(IntEnum):
    """The value of a rate or time that counts: the safe bound, the median, or the optimistic bound."""

    SURE = 0
    MEDIAN = 1
    HOPED = 2


class Columns(Protocol):
    """Candidates as columns (n,): `kind` is an index into `names`, the instance types, `option` into
    `offers()`. Each is `count` instances with their `disk`, at `usd_each` dollars per hour, `usd` in all."""

    @property
    def names(self) -> Objects: ...
    @property
    def kind(self) -> Integers: ...
    @property
    def option(self) -> Integers: ...
    @property
    def disk(self) -> Objects: ...
    @property
    def count(self) -> Integers: ...
    @property
    def usd_each(self) -> Floats: ...
    @property
    def usd(self) -> Floats: ...
    def offers(self) -> Sequence[Offer]: ...
    def offer(self, row: int, /) -> Offer: ...
    def take(self, rows: Integers | Booleans, /) -> Self: ...
    def __len__(self) -> int: ...


class Option(Protocol):
    """One way to use an offer, with the disk that holds the data."""

    @property
    def offer(self) -> Offer: ...
    @property
    def disk(self) -> Disk: ...


P = TypeVar("P", bound=Option)


class OptionTable(Struct, Generic[P], frozen=True, kw_only=True):
    """Options as columns (n,), one row each: the columns that all tasks share."""

    options: Sequence[P]
    names: Objects
    kind: Integers
    disk: Objects
    usd_each: Floats

    @classmethod
    def of(cls, options: Sequence[P]) -> Self:
        """The table of options (at least one)."""
        return cls(**option_columns(options))

    def __len__(self) -> int:
        return len(self.options)

    @property
    def count(self) -> Integers:
        """The number of instances of each row: one, unless a subclass has the column."""
        return np.ones(len(self), dtype=np.intp)

    @property
    def usd(self) -> Floats:
        return np.asarray(self.count * self.usd_each)

    @property
    def option(self) -> Integers:
        """The index of each row in `offers()`, which has an offer for every row."""
        return np.arange(len(self))

    def offers(self) -> list[Offer]:
        return [option.offer for option in self.options]

    def offer(self, row: int) -> Offer:
        return self.options[row].offer

    def take(self, rows: Integers | Booleans) -> Self:
        some = np.arange(len(self))[rows]
        options = [self.options[row] for row in some.tolist()]
        columns = {name: getattr(self, name)[some] for name in ("kind", "disk", "usd_each")}
        return replace(self, options=options, **columns)


def option_columns(options: Sequence[Option]) -> dict[str, Any]:
    """The columns of an `OptionTable` of these options (at least one), one row each."""
    numbers: dict[tuple[str, str], int] = {}
    instances = [option.offer.instance for option in options]
    kind = [numbers.setdefault((instance.cloud, instance.name), len(numbers)) for instance in instances]
    return {
        "options": options,
        "names": np.array([name for _, name in numbers], dtype=object),
        "kind": np.array(kind),
        "disk": np.fromiter((option.disk for option in options), object),
        "usd_each": np.array(
            [option.offer.price.usd_per_hour + option.disk.usd_per_hour for option in options]
        ),
    }


def cheapest(table: Columns) -> int:
    """The row with the least total price; ties by name."""
    usd = table.usd
    return int(min(np.flatnonzero(usd == usd.min()), key=lambda row: (table.names[table.kind[row]], row)))
