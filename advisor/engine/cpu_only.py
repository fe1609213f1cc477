"""Instances without an accelerator, for a network that their CPU computes: few of thousands are
worth a record.

A bound decides which: the network alone on a CPU, everything else for nothing, is never slower
than what is predicted for the whole, and no disk is cheaper than none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from advisor.catalog import CpuOnly
from advisor.domain import Candidate, Rejected, Request
from advisor.engine.candidates import Floats
from advisor.engine.field import by_speed_and_price
from advisor.engine.groups import Group, Judged
from advisor.engine.judging import Judge
from advisor.engine.pareto import wants_front
from advisor.engine.prepared import Prepared
from advisor.engine.querying import cpu_rates_are_known, cpus_may_compete
from advisor.engine.wording import TOO_SLOW
from advisor.records import dataclass, field
from advisor.units import format_hours, format_rate, format_usd

# The first types that are looked at whole; each further group is twice as large.
_FIRST_GROUP = 8


class Looked(NamedTuple):
    """What became of a group: candidates as coarse as the catalogue's disks, those that may answer
    but for their speed, those with fitted disks, the best one of each type that may be shown, types
    that are turned down, and the candidates of each type that is too dear to be shown."""

    group: Group
    coarse: Sequence[Candidate]
    slower: Sequence[Candidate]
    fitted: Sequence[Candidate]
    best: Sequence[Candidate]
    rejected: Sequence[Rejected]
    beyond: Iterable[Sequence[Candidate]]
    names: Container[str] | None

    @property
    def candidates(self) -> list[Candidate]:
        """All of the types that were asked about: some of the group's by name, or every one."""
        names, every = self.names, [*self.coarse, *self.fitted]
        if names is None:
            return every
        return [one for one in every if one.spec.offer.instance.name in names]

    def only(self, wanted: Callable[[str], bool]) -> Looked:
        """What it tells of types of some names."""
        return self._replace(
            best=[one for one in self.best if wanted(one.spec.offer.instance.name)],
            rejected=[one for one in self.rejected if wanted(one.instance_type)],
            beyond=(one for one in self.beyond if wanted(one[0].spec.offer.instance.name)),
        )


@dataclass(slots=True)
class CpuOnlyFound:
    """What became of the types: turned down by the bound, or looked at whole; how many offers there
    were, and the Pareto front with them."""

    front: tuple[Candidate, ...]
    rejected: list[Rejected] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    considered: int = 0


class _Worth(NamedTuple):
    """A type that may answer: the least that it could rank by and cost, the most it could reach."""

    rank: float
    name: str
    usd_per_hour: float
    rate: float


@dataclass(frozen=True, slots=True)
class CpuOnlySearch:
    """The types that could be shown beside other answers, or lie on the front of price and rate.

    `shown` is how many types are shown, `look` looks at a group whole, of which nothing is shown
    that ranks after a limit, `front_of` gives the Pareto front of judged offers and candidates.
    What could not be shown however well it did is neither judged nor predicted.
    """

    judge: Judge
    shown: int
    prepared: Prepared
    look: Callable[[Group, float, Container[str] | None], Looked]
    front_of: Callable[[Sequence[Judged], Sequence[Candidate]], tuple[Candidate, ...]]

    @property
    def request(self) -> Request:
        """What is asked."""
        return self.judge.request

    def beside(self, best: Iterable[Candidate], front: tuple[Candidate, ...]) -> CpuOnlyFound:
        """What is found beside the `best` of other types and their `front`."""
        found = CpuOnlyFound(front)
        if not (cpus_may_compete(self.request) and cpu_rates_are_known(self.request)):
            return found
        found.considered = len(self.prepared.cpu_types)
        costs = self._costs(best)
        last = math.inf if wants_front(self.request) else _last_shown(costs, self.shown)
        worth = sorted(_worth_a_look(self.request, self.prepared, found, last))
        if not by_speed_and_price(self.request):
            self._look_by_groups(worth, costs, found)
            return found
        # What an earlier question asked for is told by columns, all at once.
        names, known = self.prepared.known_on_cpu
        asked = {one.name for one in worth if one.name in names}
        if asked:
            costs += self._look_at(known, last, found, asked)
        self._look_by_groups([one for one in worth if one.name not in asked], costs, found)
        limit = _last_shown(costs, self.shown)
        # Whatever was known before, the answer is about the same types.
        ranks = {one.name: one.rank for one in worth}
        found.looked = [one.only(lambda name: ranks[name] <= limit) for one in found.looked]
        return found

    def _look_by_groups(
        self, worth: Sequence[_Worth], costs: list[float], found: CpuOnlyFound
    ) -> None:
        """The cheapest first, until nothing more could be shown; adds to `costs`."""
        at, size = 0, _FIRST_GROUP
        while at < len(worth):
            limit = _last_shown(costs, self.shown)
            group = [
                one.name
                for one in worth[at : at + size]
                if one.rank <= limit or self._may_lead(one, found.front)
            ]
            at, size = at + size, 2 * size
            if group:
                costs += self._look_at(self.prepared.on_cpu(group), limit, found)

    def _look_at(
        self, group: Group, limit: float, found: CpuOnlyFound, names: Container[str] | None = None
    ) -> list[float]:
        """Judge and predict types whole; what those that answer rank by."""
        looked = self.look(group, limit, names)
        found.looked.append(looked)
        if wants_front(self.request):
            candidates = [*found.front, *looked.candidates]
            found.front = self.front_of(looked.group.judged, candidates)
        return self._costs(looked.best)

    def _costs(self, best: Iterable[Candidate]) -> list[float]:
        return [self.judge.rank(one)[0] for one in best if self.judge.answers(one)]

    def _may_lead(self, one: _Worth, front: Iterable[Candidate]) -> bool:
        """Whether it could lie on the front: nothing there is as cheap and as fast as it."""
        return wants_front(self.request) and not any(
            other.spec.total_usd_per_hour <= one.usd_per_hour and other.prediction.lower >= one.rate
            for other in front
        )


def _worth_a_look(
    request: Request, prepared: Prepared, found: CpuOnlyFound, last: float
) -> Iterator[_Worth]:
    """Types that may answer, and rank before the last that is shown; those that cannot answer are
    rejected."""
    types = prepared.cpu_types
    if not types or not prepared.most_on_cpu.any():
        found.considered = 0  # what the network computes is not known: no CPU can be judged
        return
    most, target, bound = prepared.most_on_cpu, request.target_throughput, _Bound(request)
    slow = most * request.max_count < (target or 0.0)
    found.rejected += bound.too_slow(prepared, np.flatnonzero(slow).tolist())
    ranks = prepared.cpu_prices * _counts(np.where(slow, np.inf, most), target or 0.0)
    worth = ~slow & ((ranks <= last) | (target is None or _is_limited(request)))
    for at in np.flatnonzero(worth).tolist():
        one, rate = types[at], float(most[at])
        missed = bound.missed(one, rate)
        if missed is not None:
            found.rejected.append(_rejected(one, *missed))
            continue
        rank = bound.usd_per_run(one, rate) if target is None else float(ranks[at])
        yield _Worth(rank, one.name, one.usd_per_hour, rate * request.max_count)


def _counts(most: Floats, target: float) -> Floats:
    """How many instances of each rate reach the target, one at least."""
    return np.maximum(1.0, np.ceil(target / np.where(most > 0, most, np.inf)))


def _is_limited(request: Request) -> bool:
    """Whether more than a rate may be missed, which has to be told of each type."""
    limits = (request.max_hours, request.max_run_usd, request.max_usd_per_hour)
    return any(one is not None for one in limits)


class _Bound:
    """What a type misses however well it does, in the order in which limits are judged."""

    def __init__(self, request: Request) -> None:
        self._request = request
        each = " each" if request.max_count > 1 else ""
        wanted = (request.target_throughput or 0.0) / request.max_count
        self._wanted = f"{format_rate(wanted)}{each}"

    def too_slow(self, prepared: Prepared, places: Sequence[int]) -> list[Rejected]:
        """Types that compute less than is wanted, however well everything else does."""
        missed, some = f", not {self._wanted}", map(prepared.cpu_words.__getitem__, places)
        found = ((name, TOO_SLOW, does + missed, usd) for name, does, usd in some)
        # There are more than a thousand: made without a call of Python's for each.
        return list(map(_REJECTED, found))

    def missed(self, one: CpuOnly, rate: float) -> tuple[str, str] | None:
        """Reason and detail; None where it may answer."""
        request = self._request
        hours = (request.run_samples or 0.0) / (rate * request.max_count * 3600)
        if hours > (request.max_hours or math.inf):
            least, most = format_hours(hours), format_hours(request.max_hours or 0.0)
            return "too_long", f"its run takes {least} or more likely, above {most}"
        usd = self.usd_per_run(one, rate)
        if request.run_samples and usd > (request.max_run_usd or math.inf):
            least, most = format_usd(usd), format_usd(request.max_run_usd or 0.0)
            return "over_max_cost", f"its run costs {least} or more likely, above {most}"
        if one.usd_per_hour > (request.max_usd_per_hour or math.inf):
            most = format_usd(request.max_usd_per_hour or 0.0)
            return "over_max_price", f"{format_usd(one.usd_per_hour)}/h is above {most}/h"
        return None

    def usd_per_run(self, one: CpuOnly, rate: float) -> float:
        """The least that a run, or a million samples, costs."""
        return one.usd_per_hour / (rate * 3600) * (self._request.run_samples or 1e6)


_REJECTED = partial(tuple.__new__, Rejected)


def _last_shown(costs: Sequence[float], count: int) -> float:
    return sorted(costs)[count - 1] if len(costs) >= count else math.inf


def _rejected(one: CpuOnly, reason: str, detail: str) -> Rejected:
    return Rejected(
        instance_type=one.name, reason=reason, detail=detail, usd_per_hour=one.usd_per_hour
    )
