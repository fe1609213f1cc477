"""Types that are not recommended, each with its reason. An answer has more than a thousand of them,
of which few are read: their counts are told at once, their records are made when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

from advisor.domain import Rejected, Request
from advisor.engine.limits import TOO_SLOW, turned_down
from advisor.engine.prepared import CpuTypes
from advisor.engine.table import Table
from advisor.messages import Message
from advisor.units import format_rate


class Missed(NamedTuple):
    """Rows of a table that show for what reasons their types are turned down."""

    request: Request
    table: Table
    rows: Sequence[tuple[int, str]]


class SlowCpus(NamedTuple):
    """Types without an accelerator (by their places) that compute less than is wanted, however well
    everything else does."""

    cpus: CpuTypes
    places: Sequence[int]
    wanted: float
    instances: int

    def rejected(self) -> Iterator[Rejected]:
        """One record each."""
        each = " each" if self.instances > 1 else ""
        wanted = f"{format_rate(self.wanted / self.instances)}{each}"
        most = self.cpus.most
        for place in self.places:
            one = self.cpus.types[place]
            yield Rejected(one.name, TOO_SLOW, _cpu_bound(one.cores, float(most[place]), wanted),
                           one.usd_per_hour)  # fmt: skip


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


class Rejections(Sequence[Rejected]):
    """The cheapest first, those without a price last."""

    def __init__(
        self, listed: Sequence[Rejected], missed: Sequence[Missed], slow: Sequence[SlowCpus] = ()
    ) -> None:
        self._listed, self._missed, self._slow = listed, missed, slow

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many types each reason took out, the most frequent first."""
        counts = Counter(rejected.reason for rejected in self._listed)
        counts.update(reason for missed in self._missed for _, reason in missed.rows)
        counts[TOO_SLOW] += sum(len(slow.places) for slow in self._slow)
        return dict(sorted((+counts).items(), key=lambda item: (-item[1], item[0])))

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
            found += [turned_down(missed.request, missed.table, at, reason)
                      for at, reason in missed.rows]  # fmt: skip
        for slow in self._slow:
            found += slow.rejected()
        priced = [one for one in found if one.usd_per_hour is not None]
        priced.sort(key=lambda one: (one.usd_per_hour, one.instance_type))
        others = [one for one in found if one.usd_per_hour is None]
        others.sort(key=lambda one: one.instance_type)
        return (*priced, *others)
