"""What offers do with the catalogue's coarse disks, whatever the target: as records and as columns.

A target turns most types down, and few of the others are cheap enough to be shown. Both are told
from the columns, so that only the few are looked at as records.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Candidate, Rejected, Request
from advisor.engine import reasons
from advisor.engine.candidates import Floats, Runnable
from advisor.engine.pareto import wants_front
from advisor.engine.wording import TOO_SLOW, SlowWords, shortfall
from advisor.records import replace

Booleans = NDArray[np.bool_]
Integers = NDArray[np.intp]
Item = TypeVar("Item")
# No prediction reaches it.
_UNREACHED = 1e300


class Shortlist(NamedTuple):
    """Options that may be shown, with their candidates; candidates that may answer, for less, but
    for their speed; types that are turned down; and the candidates of each type that answers and is
    too dear to be shown, the cheapest type first, told when they are asked for."""

    options: Sequence[Runnable]
    candidates: Sequence[Candidate]
    slower: Sequence[Candidate]
    rejected: list[Rejected]
    beyond: Iterable[Sequence[Candidate]] = ()


class TypeField:
    """One type's options and all their candidates; `request` is one without a target."""

    def __init__(
        self, request: Request, options: Sequence[Runnable], candidates: Sequence[Candidate]
    ) -> None:
        self.name = options[0].offer.instance.name
        self.options = options
        self.candidates = candidates
        self.cheapest_offer = min(one.offer.price.usd_per_hour for one in options)
        steps: dict[tuple[int, str], int] = {}
        self.columns = np.array(
            [
                (
                    one.prediction.lower,
                    one.prediction.upper,
                    one.spec.total_usd_per_hour,
                    reasons.answers(request, one),
                    steps.setdefault((id(one.spec.offer), one.spec.disk.rate.type), len(steps)),
                )
                for one in candidates
            ]
        )
        self._unreached = replace(request, target_throughput=_UNREACHED)

    def too_slow(self, target: float) -> Rejected:
        """Why it is turned down by a target that none of its candidates reaches."""
        known, words = self._otherwise
        if words is None:
            return known
        return Rejected(known.instance_type, TOO_SLOW, words.detail(target), known.usd_per_hour)

    @cached_property
    def _otherwise(self) -> tuple[Rejected, SlowWords | None]:
        """Why no target is reached, and the words for one where its rate is what is missing."""
        closest = reasons.closest(self._unreached, self.candidates)
        rejected = passed_over(self._unreached, closest)
        return rejected, SlowWords(closest) if rejected.reason == TOO_SLOW else None


class Field:
    """Some types beside each other."""

    def __init__(self, types: Sequence[TypeField]) -> None:
        self.types = types
        columns = np.concatenate([one.columns for one in types]) if types else np.empty((0, 5))
        self._lower, self._upper, self._usd = np.ascontiguousarray(columns[:, :3].T)
        able, step = columns[:, 3], columns[:, 4]
        self._able = able > 0
        counts = [len(one.candidates) for one in types]
        self._first = np.cumsum([0, *counts[:-1]])
        self._type = np.repeat(np.arange(len(types)), counts)
        # No type has as many options and types of disk.
        self._step = np.unique(self._type * 10_000 + step, return_inverse=True)[1].reshape(-1)
        self._offer = np.array([one.cheapest_offer for one in types])
        self._names = [one.name for one in types]

    @cached_property
    def options(self) -> list[Runnable]:
        """Those of all types."""
        return [option for one in self.types for option in one.options]

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Those of all types, in the order of the options."""
        return [candidate for one in self.types for candidate in one.candidates]

    def shortlist(
        self, request: Request, last_shown: float = math.inf, names: Container[str] | None = None
    ) -> Shortlist:
        """What of it a request is about, where nothing is shown that ranks after `last_shown`, and
        only types of some `names` are asked for."""
        if not by_speed_and_price(request):
            return Shortlist(self.options, self.candidates, self.candidates, [])
        target, most = request.target_throughput or 0.0, request.max_usd_per_hour or math.inf
        asked = np.array([names is None or name in names for name in self._names], dtype=bool)
        allowed = self._able & asked[self._type]
        fast = allowed & (self._lower >= target)
        least = self._least(fast & (self._usd <= most))
        able = self._least(fast) < math.inf
        near = able & (self._offer <= min(last_shown, _smallest(least, request.max_results)))
        dear = able & ~near & (least == math.inf)
        beyond = np.flatnonzero(able & ~near & ~dear)
        # Dearer ones than what answers anyhow tempt nobody.
        tempting = self._usd < min(last_shown, least.min(initial=math.inf))
        slower = allowed & (self._lower < target) & (target <= self._upper) & tempting
        return Shortlist(
            options=[option for one in _those(self.types, near) for option in one.options],
            candidates=_those(self.candidates, self._cheapest_steps(fast & near[self._type])),
            slower=_those(self.candidates, slower),
            rejected=[
                *(one.too_slow(target) for one in _those(self.types, asked & ~able)),
                *(_closest(request, one) for one in _those(self.types, dear)),
            ],
            beyond=(
                self.types[kind].candidates
                for kind in beyond[np.argsort(least[beyond], kind="stable")].tolist()
            ),
        )

    def _cheapest_steps(self, some: Booleans) -> Booleans:
        """Of some candidates those with the cheapest disk of its type, at every batch: a search
        for less begins there."""
        places = np.flatnonzero(some)
        steps, usd = self._step[places], self._usd[places]
        least = np.full(self._step.max(initial=-1) + 1, math.inf)
        np.minimum.at(least, steps, usd)
        cheapest = np.zeros_like(some)
        cheapest[places[usd == least[steps]]] = True
        return cheapest

    def _least(self, some: Booleans) -> Floats:
        """The least price of some candidates by type; infinite for a type without one."""
        if not self.types:
            return np.empty(0)
        return np.asarray(np.minimum.reduceat(np.where(some, self._usd, math.inf), self._first))


def passed_over(request: Request, candidate: Candidate) -> Rejected:
    """Why a type whose best candidate this is is not recommended."""
    reason, detail = shortfall(request, candidate)
    return Rejected(
        instance_type=candidate.spec.offer.instance.name,
        reason=reason,
        detail=detail,
        usd_per_hour=candidate.spec.total_usd_per_hour,
    )


def by_speed_and_price(request: Request) -> bool:
    """Whether a rate and a price by the hour decide, so that columns can tell who answers."""
    runs = request.max_hours is not None or request.max_run_usd is not None
    return not (wants_front(request) or runs or request.max_count > 1)


def _closest(request: Request, one: TypeField) -> Rejected:
    return passed_over(request, reasons.closest(request, one.candidates))


def _smallest(values: Floats, count: int) -> float:
    """The `count`-th smallest; infinite where there are fewer."""
    return math.inf if count > len(values) else float(np.partition(values, count - 1)[count - 1])


def _those(items: Sequence[Item], which: Booleans) -> list[Item]:
    return [items[at] for at in np.flatnonzero(which).tolist()]
