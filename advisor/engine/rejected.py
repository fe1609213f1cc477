"""Types that are not recommended, each with its reason. An answer has more than a thousand of them,
of which few are read: prices and reasons are columns, records are made of those that are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from advisor.domain import Rejected, RejectedTypes, Request
from advisor.engine.limits import TOO_SLOW, turned_down
from advisor.engine.model import Booleans, Floats, Integers
from advisor.engine.prepared import CpuTypes
from advisor.engine.table import Table
from advisor.messages import Message
from advisor.units import format_rate

# Reasons of types that run the workload and still do not answer.
RAN = frozenset(
    {
        "too_slow", "latency", "too_long", "over_max_cost", "over_max_price", "no_interval",
        "gpu_memory", "memory", "no_disk", "quota",
    }
)  # fmt: skip


class RejectedPart(Protocol):
    """Some of the types, each with a reason."""

    @property
    def reasons(self) -> Sequence[str]:
        """Codes."""

    def usd(self) -> Floats:
        """USD per hour, infinite where no price is known."""

    def name(self, at: int) -> str:
        """A type's name."""

    def record(self, at: int) -> Rejected:
        """A type with what it misses."""


class RejectedRecords(NamedTuple):
    """Types that are records already."""

    records: Sequence[Rejected]

    @property
    def reasons(self) -> Sequence[str]:
        """Codes."""
        return [one.reason for one in self.records]

    def usd(self) -> Floats:
        """USD per hour, infinite where no price is known."""
        prices = [np.inf if one.usd_per_hour is None else one.usd_per_hour for one in self.records]
        return np.array(prices, dtype=float)

    def name(self, at: int) -> str:
        """A type's name."""
        return self.records[at].instance_type

    def record(self, at: int) -> Rejected:
        """A type with what it misses."""
        return self.records[at]


class Missed(NamedTuple):
    """Rows of a table that show for what reasons their types are turned down."""

    request: Request
    table: Table
    rows: Sequence[tuple[int, str]]

    @property
    def reasons(self) -> Sequence[str]:
        """Codes."""
        return [reason for _, reason in self.rows]

    def usd(self) -> Floats:
        """USD per hour."""
        return self.table.usd[np.array([at for at, _ in self.rows], dtype=np.intp)]

    def name(self, at: int) -> str:
        """A type's name."""
        return str(self.table.names[self.table.kind[self.rows[at][0]]])

    def record(self, at: int) -> Rejected:
        """A type with what it misses."""
        return turned_down(self.request, self.table, *self.rows[at])


class SlowCpus(NamedTuple):
    """Types without an accelerator (by their places) that compute less than is wanted, however well
    everything else does."""

    cpus: CpuTypes
    places: Integers
    wanted: float
    instances: int

    @property
    def reasons(self) -> Sequence[str]:
        """Codes."""
        return [TOO_SLOW] * len(self.places)

    def usd(self) -> Floats:
        """USD per hour."""
        return self.cpus.usd[self.places]

    def name(self, at: int) -> str:
        """A type's name."""
        return self.cpus.types[int(self.places[at])].name

    def record(self, at: int) -> Rejected:
        """A type with what it misses."""
        place = int(self.places[at])
        one, most = self.cpus.types[place], float(self.cpus.most[place])
        each = " each" if self.instances > 1 else ""
        wanted = f"{format_rate(self.wanted / self.instances)}{each}"
        detail = _cpu_bound(one.cores, most, wanted)
        return Rejected(one.name, TOO_SLOW, detail, one.usd_per_hour)


def _cpu_bound(cores: float, rate: float, wanted: str) -> Message:
    if cores == 1:
        return Message(
            "its core computes at most {rate:rate}/s (median, without decoding), below {wanted}/s",
            code="cpu_bound", rate=rate, wanted=wanted,
        )  # fmt: skip
    return Message(
        "its {cores:g} cores compute at most {rate:rate}/s (median, without decoding), below "
        "{wanted}/s",
        code="cpu_bound", cores=cores, rate=rate, wanted=wanted,
    )  # fmt: skip


class Rejections(RejectedTypes):
    """All parts together."""

    def __init__(self, parts: Iterable[RejectedPart]) -> None:
        self._parts = [part for part in parts if len(part.reasons)]
        self._first = np.cumsum([0, *(len(part.reasons) for part in self._parts)])

    @cached_property
    def _reasons(self) -> list[str]:
        return [reason for part in self._parts for reason in part.reasons]

    @cached_property
    def _usd(self) -> Floats:
        return np.concatenate([np.empty(0), *(part.usd() for part in self._parts)])

    @property
    def counts(self) -> Mapping[str, int]:
        """How many types each reason took out, the most frequent first."""
        counts = Counter(self._reasons)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def nearest(self, usd_per_hour: float | None, most: int | None = None) -> list[Rejected]:
        """See `RejectedTypes`."""
        count = len(self) if most is None else min(most, len(self))
        runs = np.array([reason in RAN for reason in self._reasons], dtype=bool)
        if usd_per_hour is not None:
            away, dearer = np.abs(self._usd - usd_per_hour), self._usd >= usd_per_hour
            groups = [side & run for side in (~dearer, dearer) for run in (runs, ~runs)]
            return self._records(self._least(groups, away, count))
        rising = self._least([runs, ~runs], self._usd, len(self))
        firsts: dict[str, int] = {}
        for at in rising:
            firsts.setdefault(self._reasons[at], at)
        leading = frozenset(firsts.values())
        others = (at for at in rising if at not in leading)
        return self._records([*firsts.values(), *others][:count])

    def _least(self, groups: Iterable[Booleans], key: Floats, count: int) -> list[int]:
        """The first `count` of all, group by group, in each by the key, by price and by name."""
        found: list[int] = []
        for group in groups:
            at, wanted = np.flatnonzero(group), count - len(found)
            if wanted < len(at):
                keys = key[at]
                at = at[keys <= np.partition(keys, wanted - 1)[wanted - 1]] if wanted else at[:0]
            rows = zip(key[at].tolist(), self._usd[at].tolist(), at.tolist(), strict=True)
            ordered = sorted((first, usd, self._name(place), place) for first, usd, place in rows)
            found += [place for *_, place in ordered[:wanted]]
        return found

    def _part(self, at: int) -> tuple[RejectedPart, int]:
        number = int(np.searchsorted(self._first, at, side="right")) - 1
        return self._parts[number], at - int(self._first[number])

    def _name(self, at: int) -> str:
        part, place = self._part(at)
        return part.name(place)

    def _records(self, places: Iterable[int]) -> list[Rejected]:
        return [part.record(place) for part, place in map(self._part, places)]

    def __len__(self) -> int:
        return int(self._first[-1])

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
        everything = np.ones(len(self), dtype=bool)
        return tuple(self._records(self._least([everything], self._usd, len(self))))
