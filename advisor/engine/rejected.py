"""Types that are not recommended, each with its reason. An answer has more than a thousand of them,
of which few are read: their counts are told at once, their records are made when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, NamedTuple, overload

from msgspec import Struct

from advisor.domain import LazyRejected, Rejected, nearest_first
from advisor.engine.cpus import SlowCpus
from advisor.engine.limits import TOO_SLOW
from advisor.engine.shortfalls import turned_down
from advisor.engine.table import Table
from advisor.questions.network import NetworkQuestion as Request


class Missed(Struct, frozen=True):
    """Rows of a table that show for what reasons their types are turned down."""

    request: Request
    table: Table
    rows: Sequence[tuple[int, str]]


class _Entry(NamedTuple):
    """What a rejected type is ordered by; `source` makes its record, from a row where it is one of
    a table or of the types without an accelerator."""

    usd_per_hour: float | None
    instance_type: str
    reason: str
    source: Rejected | Missed | SlowCpus
    row: int = 0

    def record(self) -> Rejected:
        """The record itself."""
        match self.source:
            case Missed(request, table, _):
                return turned_down(request, table, self.row, self.reason)
            case SlowCpus():
                return self.source.record(self.row)
            case _:
                return self.source


class Rejections(LazyRejected):
    """The cheapest first, those without a price last."""

    def __init__(
        self, listed: Sequence[Rejected], missed: Missed | None = None, slow: Sequence[SlowCpus] = ()
    ) -> None:
        self._listed, self._slow = listed, slow
        self._missed = () if missed is None else (missed,)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many types each reason took out, the most frequent first."""
        counts = Counter(rejected.reason for rejected in self._listed)
        counts.update(reason for missed in self._missed for _, reason in missed.rows)
        counts[TOO_SLOW] += sum(len(slow.places) for slow in self._slow)
        return dict(sorted((+counts).items(), key=lambda item: (-item[1], item[0])))

    def nearest(self, price: float | None, most: int) -> list[Rejected]:
        """The `most` nearest to a price, as `nearest_first` orders them, and no other record."""
        entries = [_Entry(each.usd_per_hour, each.instance_type, each.reason, each) for each in self._listed]
        for missed in self._missed:
            usd, names, kinds = missed.table.usd, missed.table.names, missed.table.kind
            entries += [
                _Entry(float(usd[row]), names[kinds[row]], reason, missed, row) for row, reason in missed.rows
            ]
        for slow in self._slow:
            types = slow.cpus.types
            entries += [
                _Entry(types[place].usd_per_hour, types[place].name, TOO_SLOW, slow, place)
                for place in slow.near(price, most)
            ]
        entries.sort(key=_by_price)
        return [entry.record() for entry in nearest_first(entries, price)[:most]]

    def __len__(self) -> int:
        return sum(self.counts.values())

    @overload
    def __getitem__(self, at: int) -> Rejected: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Rejected]: ...
    def __getitem__(self, at: Any) -> Any:
        return self._all[at]

    def __iter__(self) -> Iterator[Rejected]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _all(self) -> tuple[Rejected, ...]:
        found = [*self._listed]
        for missed in self._missed:
            found += [turned_down(missed.request, missed.table, at, reason) for at, reason in missed.rows]
        for slow in self._slow:
            found += slow.rejected()
        found.sort(key=_by_price)
        return tuple(found)


def _by_price(rejected: Rejected | _Entry) -> tuple[float, str]:
    """The cheapest first; those without a price last."""
    usd = rejected.usd_per_hour
    return inf if usd is None else usd, rejected.instance_type
