"""Types that are not recommended, and which of them a reader wants to see first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol, TypeVar

# Reasons of types that run the workload and still do not answer.
_RAN = frozenset(
    {
        "too_slow", "latency", "too_long", "over_max_cost", "over_max_price", "no_interval",
        "gpu_memory", "memory", "no_disk", "quota",
    }
)  # fmt: skip


class Rejected(NamedTuple):
    """An instance type that is not recommended, and why, with the number that decided.

    `detail` is a `Message`. `usd_per_hour` is its cheapest total where that is known. A tuple,
    since an answer has more than a thousand of them.
    """

    instance_type: str
    reason: str
    detail: Any
    usd_per_hour: float | None = None


class LazyRejected(Sequence[Rejected]):
    """Rejected types whose records are made when they are read."""

    @abstractmethod
    def nearest(self, price: float | None, most: int) -> list[Rejected]:
        """The first `most` of `nearest_first`; no other record is made."""


class _Priced(Protocol):
    @property
    def reason(self) -> str: ...
    @property
    def usd_per_hour(self) -> float | None: ...


P = TypeVar("P", bound=_Priced)


def nearest_first(rejected: Iterable[P], price: float | None) -> list[P]:
    """Nearest to the answer first, which costs `price` USD per hour: cheaper ones before dearer
    ones, those that run the workload and miss a limit before those that cannot run it, then by how
    little their price differs. Without an answer, the cheapest of each reason leads: hundreds that
    are too slow would hide the few that lack a disk.
    """
    if price is not None:
        return sorted(
            rejected,
            key=lambda each: (
                _usd(each) >= price, each.reason not in _RAN, abs(_usd(each) - price)
            ),
        )  # fmt: skip
    rising = sorted(rejected, key=lambda each: (each.reason not in _RAN, _usd(each)))
    first = {each.reason: each for each in reversed(rising)}
    return sorted(rising, key=lambda each: first[each.reason] is not each)


def _usd(rejected: _Priced) -> float:
    """Infinite where its price is not known: then it is not cheaper."""
    return inf if rejected.usd_per_hour is None else rejected.usd_per_hour
