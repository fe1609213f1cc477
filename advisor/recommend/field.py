"""What offers do with the catalogue's coarse disks, whatever the target: as records and as columns.

A target turns most types down, and few of the others are cheap enough to be shown. Both are told
from the columns, so that only the few are looked at as records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Candidate, Offer, Rejected, Request
from advisor.recommend import reasons
from advisor.recommend.candidates import Floats, Runnable
from advisor.recommend.pareto import wants_front
from advisor.recommend.wording import TOO_SLOW, SlowWords, shortfall
from advisor.records import replace

Judged = tuple[Offer, Runnable | Rejected]
Booleans = NDArray[np.bool_]
Integers = NDArray[np.intp]
Item = TypeVar("Item")
# No prediction reaches it.
_UNREACHED = 1e300


class Shortlist(NamedTuple):
    """Options that may be shown, with their candidates; candidates that would answer but for their
    speed; types that no disk makes fast enough; and the candidates of each type that answers and is
    too dear to be shown, the cheapest type first, told when they are asked for."""

    options: Sequence[Runnable]
    candidates: Sequence[Candidate]
    slower: Sequence[Candidate]
    rejected: list[Rejected]
    beyond: Iterable[Sequence[Candidate]] = ()


class Field:
    """Options and every candidate of them, in the same order; `request` is one without a target."""

    def __init__(
        self, request: Request, options: Sequence[Runnable], candidates: Sequence[Candidate]
    ) -> None:
        self.options = options
        self.candidates = candidates
        self._request = request

    def shortlist(self, request: Request) -> Shortlist:
        """What of it a request is about."""
        if not _by_speed_and_price(request):
            return Shortlist(self.options, self.candidates, self.candidates, [])
        target, most = request.target_throughput or 0.0, request.max_usd_per_hour or math.inf
        fast = self._able & (self._lower >= target)
        least = self._least(fast & (self._usd <= most))
        able = self._least(fast) < math.inf
        near = able & (self._cheapest_offer <= _smallest(least, request.max_results))
        dear = able & ~near & (least == math.inf)
        beyond = np.flatnonzero(able & ~near & ~dear)
        slower = self._able & (self._lower < target) & (target <= self._upper)
        return Shortlist(
            options=_those(self.options, near[self._type_of_option]),
            candidates=_those(self.candidates, near[self._type]),
            slower=_those(self.candidates, slower),
            rejected=[
                *(one.told(target) for one in _those(self._slow_words, ~able)),
                *(self._closest(request, kind) for kind in np.flatnonzero(dear).tolist()),
            ],
            beyond=map(self._group, beyond[np.argsort(least[beyond], kind="stable")].tolist()),
        )

    def _least(self, some: Booleans) -> Floats:
        """The least price of some candidates by type; infinite for a type without one."""
        least = np.full(len(self._names), math.inf)
        np.minimum.at(least, self._type[some], self._usd[some])
        return least

    def _closest(self, request: Request, kind: int) -> Rejected:
        return passed_over(request, reasons.closest(request, self._group(kind)))

    def _group(self, kind: int) -> list[Candidate]:
        return _those(self.candidates, self._type == kind)

    @cached_property
    def _names(self) -> dict[tuple[str, str], int]:
        """Types, and which one each is."""
        names: dict[tuple[str, str], int] = {}
        for one in self.options:
            names.setdefault((one.offer.instance.cloud, one.offer.instance.name), len(names))
        return names

    @cached_property
    def _type_of_option(self) -> Integers:
        return np.array([self._place(one.offer) for one in self.options], dtype=np.intp)

    @cached_property
    def _type(self) -> Integers:
        return np.array([self._place(one.spec.offer) for one in self.candidates], dtype=np.intp)

    def _place(self, offer: Offer) -> int:
        return self._names[offer.instance.cloud, offer.instance.name]

    @cached_property
    def _cheapest_offer(self) -> Floats:
        """The least price of an instance by type, without a disk."""
        least = np.full(len(self._names), math.inf)
        np.minimum.at(
            least, self._type_of_option, [one.offer.price.usd_per_hour for one in self.options]
        )
        return least

    @cached_property
    def _able(self) -> Booleans:
        """Candidates that would answer if their rate and their price did."""
        request = self._request
        return np.array([reasons.answers(request, one) for one in self.candidates], dtype=bool)

    @cached_property
    def _lower(self) -> Floats:
        return np.array([one.prediction.lower for one in self.candidates])

    @cached_property
    def _upper(self) -> Floats:
        return np.array([one.prediction.upper for one in self.candidates])

    @cached_property
    def _usd(self) -> Floats:
        return np.array([one.spec.total_usd_per_hour for one in self.candidates])

    @cached_property
    def _slow_words(self) -> list[_Slow]:
        """What is said of each type where its target is beyond it."""
        unreached = replace(self._request, target_throughput=_UNREACHED)
        groups: list[list[Candidate]] = [[] for _ in self._names]
        for kind, one in zip(self._type.tolist(), self.candidates, strict=True):
            groups[kind].append(one)
        return [_Slow(unreached, reasons.closest(unreached, group)) for group in groups]


class _Slow:
    """The candidate that shows best why a type is turned down, with words for any target."""

    def __init__(self, unreached: Request, closest: Candidate) -> None:
        self._words: SlowWords | None = None
        self._otherwise = passed_over(unreached, closest)
        if self._otherwise.reason == TOO_SLOW:
            self._words = SlowWords(closest)

    def told(self, target: float) -> Rejected:
        """Why the type does not reach the target."""
        known = self._otherwise
        if self._words is None:
            return known
        return Rejected(
            known.instance_type, TOO_SLOW, self._words.detail(target), known.usd_per_hour
        )


def passed_over(request: Request, candidate: Candidate) -> Rejected:
    """Why a type whose best candidate this is is not recommended."""
    reason, detail = shortfall(request, candidate)
    return Rejected(
        instance_type=candidate.spec.offer.instance.name,
        reason=reason,
        detail=detail,
        usd_per_hour=candidate.spec.total_usd_per_hour,
    )


def _by_speed_and_price(request: Request) -> bool:
    """Whether a rate and a price by the hour decide, so that columns can tell who answers."""
    runs = request.max_hours is not None or request.max_run_usd is not None
    return not (wants_front(request) or runs or request.max_count > 1)


def _smallest(values: Floats, count: int) -> float:
    """The `count`-th smallest; infinite where there are fewer."""
    return math.inf if count > len(values) else float(np.partition(values, count - 1)[count - 1])


def _those(items: Sequence[Item], which: Booleans) -> list[Item]:
    return [items[at] for at in np.flatnonzero(which).tolist()]
