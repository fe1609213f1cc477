"""What all answers share that turn instance types down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from advisor.domain.results import LazyRejected, Rejected, nearest_first

_REASON = attrgetter("reason")


class Judged:
    """An answer that turned types down; its records have the fields."""

    __slots__ = ()

    @property
    def chosen(self) -> Any:
        """What is recommended; None where nothing answers."""
        raise NotImplementedError

    @property
    def rejected(self) -> Sequence[Rejected]:
        """The types that are not recommended."""
        raise NotImplementedError

    @property
    def rejected_counts(self) -> Mapping[str, int] | None:
        """How many each reason took out, where that is known without the records."""
        raise NotImplementedError

    def nearest_rejected(self, most: int | None = None) -> Sequence[Rejected]:
        """The rejected types, or the first `most` of them, as `nearest_first` orders them."""
        price = self.chosen.spec.total_usd_per_hour if self.chosen else None
        if most is not None and isinstance(self.rejected, LazyRejected):
            return self.rejected.nearest(price, most)
        return nearest_first(self.rejected, price)[:most]

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """How many types each reason took out, the most frequent first."""
        counts = self.rejected_counts or Counter(map(_REASON, self.rejected))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
