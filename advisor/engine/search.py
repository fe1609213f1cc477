"""Which types are looked at, and what becomes of them: all that have an accelerator (for
preprocessing: all), and of the thousands without one those that could be shown.

A bound decides about these: the network alone on a CPU, everything else for nothing, is never
slower than what is predicted for the whole, and no disk is cheaper than none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Rejected, Request
from advisor.engine.candidates import cpu_rates_are_known, cpus_may_compete
from advisor.engine.cpu_bounds import ranked_by_bound
from advisor.engine.disks import with_fitted_disks
from advisor.engine.limits import (
    answering,
    best_rows,
    closest_of_each,
    completed,
    cost,
    is_plain,
    limits,
    wants_front,
)
from advisor.engine.pareto import pareto_rows
from advisor.engine.prepared import CpuTypes, Group, Prepared
from advisor.engine.rejected import SlowCpus
from advisor.engine.table import Table

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers

# The first types without an accelerator that are looked at; each further group is twice as large.
_FIRST_GROUP = 8
# More of those with one, for each spec that is shown; each further group is twice as large.
_FIRST_ACCELERATED = 4


class Looked(Struct, frozen=True, kw_only=True):
    """What became of some types: all their rows, fitted disks among them, the best row of each that
    may be shown, a row and a reason of each that is turned down, and the types (by kind) that
    answer and are too dear to be shown."""

    table: Table
    best: Integers
    missed: list[tuple[int, str]]
    beyond: Booleans
    front: Table | None = None

    def within(self, wanted: Booleans) -> Looked:
        """Only of some types, by kind."""
        kinds = self.table.kind
        return replace(
            self,
            best=self.best[wanted[kinds[self.best]]],
            missed=[(at, reason) for at, reason in self.missed if wanted[kinds[at]]],
            beyond=self.beyond & wanted,
        )


class Found(Struct, kw_only=True):
    """What became of all types: those that were looked at, others that are turned down, the types
    without an accelerator that could compete, and how many offers there were."""

    looked: list[Looked] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    slow: list[SlowCpus] = field(default_factory=list)
    cpus: list[CpuTypes] = field(default_factory=list)
    considered: int = 0

    def costs(self, request: Request) -> Floats:
        """What those that answer rank by."""
        some = [cost(request, one.table)[one.best] for one in self.looked]
        return np.concatenate([np.empty(0), *some])

    def front(self) -> Table | None:
        """Of all that answer what nothing beats in price and rate."""
        fronts = [one.front for one in self.looked if one.front is not None]
        if not fronts:
            return None
        front = Table.joined(fronts)
        return front.take(pareto_rows(front, np.arange(len(front))))


def searched(request: Request, prepared: Prepared, shown: int) -> Found:
    """What may be among the `shown` best, or on the front, and why the others are not."""
    found = Found()
    cpus = cpus_may_compete(request) and cpu_rates_are_known(request)
    if cpus and _leaves_out_dear(request):
        _judge_by_price(request, prepared, shown, found)
    elif cpus and prepared.cpus.most.any():
        found.considered += len(prepared.cpus.types)
        if is_plain(request):
            _judge_by_price(request, prepared, shown, found)
        else:
            _judge_in_groups(request, prepared, shown, found)
    else:
        _judge_accelerated(request, prepared, found)
    if _leaves_out_dear(request):
        _leave_out_dear(request, prepared, found)
    return found


def _leaves_out_dear(request: Request) -> bool:
    """Whether types that cost more than the last that is shown are not looked at: over all clouds
    there are thousands, and who names a cloud wants to know why each is turned down."""
    return request.cloud == "any" and is_plain(request)


def _leave_out_dear(request: Request, prepared: Prepared, found: Found) -> None:
    """Take out what was looked at and costs more than the last that is shown: whatever was
    predicted before, the answer is about the same types."""
    limit = _smallest(found.costs(request), request.max_results)
    lowest = prepared.lowest_by_type
    dear = {name for name, usd in lowest.items() if usd > limit}
    found.considered += len(lowest) - len(dear)
    for cpus in found.cpus:
        found.considered += int(np.searchsorted(cpus.usd, limit, side="right"))
    found.slow = [replace(one, places=one.places[one.cpus.usd[one.places] <= limit]) for one in found.slow]
    for at, one in enumerate(found.looked):
        found.looked[at] = one.within(np.array([name not in dear for name in one.table.names]))
    found.rejected = [one for one in found.rejected if one.instance_type not in dear]


def _judge_accelerated(request: Request, prepared: Prepared, found: Found) -> None:
    """Judge all accelerated types, or at those that could be as cheap as the last that is shown."""
    if _leaves_out_dear(request) and not prepared.was_asked:
        _judge_cheap(request, prepared, found)
        return
    _count(request, prepared, found)
    if prepared.accelerated.table is not None:
        found.looked.append(_judged(request, prepared, prepared.accelerated))


def _count(request: Request, prepared: Prepared, found: Found) -> None:
    """Count all accelerated types, and turn down those that cannot run what is asked."""
    every = prepared.accelerated
    if not _leaves_out_dear(request):
        found.considered += every.offers
    found.rejected += every.not_runnable


def _judge_cheap(request: Request, prepared: Prepared, found: Found) -> None:
    """Judge accelerated types in growing groups, the cheapest first, while more could be shown."""
    lowest = prepared.lowest_by_type
    first = _FIRST_GROUP + _FIRST_ACCELERATED * min(request.max_results, len(lowest))
    rest, size, limit = list(lowest), first, math.inf
    while rest and lowest[rest[0]] <= limit:
        some = [name for name in rest[:size] if lowest[name] <= limit]
        rest, size = rest[size:], 2 * size
        group = prepared.accelerated_of(some)
        found.rejected += group.not_runnable
        if group.table is not None:
            found.looked.append(_judged(request, prepared, group, last_shown=limit))
        limit = _smallest(found.costs(request), request.max_results)


def _judge_by_price(request: Request, prepared: Prepared, shown: int, found: Found) -> None:
    """Judge accelerated types and those without an accelerator that could be as cheap as the last
    that is shown; all in one table, once a question has shown which may be."""
    if prepared.was_asked:
        _count(request, prepared, found)
        table = prepared.accelerated.table
        last = math.inf
        if table is not None:
            last = _smallest(_least_usd(request, table), request.max_results)
    else:
        _judge_accelerated(request, prepared, found)
        last = _smallest(found.costs(request), shown)
    rank_of = _ranks_of_cpus(request, prepared, found, last)
    if prepared.was_asked:
        _judge_whole(request, prepared, found, rank_of)
    else:
        _judge_until(request, prepared, shown, found, list(rank_of), np.array([*rank_of.values()]))
    # Whatever was predicted before, the answer is about the same types.
    limit = _smallest(found.costs(request), shown)
    wanted = {name for name, rank in rank_of.items() if rank <= limit}
    for at, one in enumerate(found.looked):
        mask = np.array([name in wanted or name not in rank_of for name in one.table.names])
        found.looked[at] = one.within(mask)
    group = prepared.on_cpu()
    found.rejected += [one for one in group.not_runnable if one.instance_type in wanted]


def _ranks_of_cpus(request: Request, prepared: Prepared, found: Found, last: float) -> dict[str, float]:
    """Types without an accelerator that may answer before the last that is shown, the best first,
    with the least that they could rank by; none where nothing tells what they compute."""
    cpus = prepared.cpus_up_to(last) if _leaves_out_dear(request) else prepared.cpus
    if not cpus.most.any():
        return {}
    found.cpus.append(cpus)
    places, ranks = _ranked_by_bound(request, cpus, found, last)
    names = [cpus.types[place].name for place in places]
    return dict(zip(names, ranks.tolist(), strict=True))


def _ranked_by_bound(request: Request, cpus: CpuTypes, found: Found, last: float) -> tuple[Integers, Floats]:
    """`ranked_by_bound`, with what cannot answer counted among what is turned down."""
    bound = ranked_by_bound(request, cpus, last)
    if bound.slow is not None:
        found.slow.append(bound.slow)
    found.rejected += bound.rejected
    return bound.places, bound.ranks


def _judge_whole(request: Request, prepared: Prepared, found: Found, rank_of: Mapping[str, float]) -> None:
    """Judge the accelerated types and these in one table: one call of many rows is quick."""
    whole = prepared.whole(list(rank_of))
    if whole.table is None:
        return
    accelerated = prepared.accelerated.table
    asked = np.array([name in rank_of for name in whole.table.names], dtype=bool)
    asked[: 0 if accelerated is None else len(accelerated.names)] = True
    found.looked.append(_judged(request, prepared, whole, asked))


def _judge_in_groups(request: Request, prepared: Prepared, shown: int, found: Found) -> None:
    """Judge all accelerated types, then at those without an accelerator, the cheapest first, until
    nothing more could be shown, or lie on the front."""
    _judge_accelerated(request, prepared, found)
    last = math.inf if wants_front(request) else _smallest(found.costs(request), shown)
    places, ranks = _ranked_by_bound(request, prepared.cpus, found, last)
    names = [prepared.cpus.types[place].name for place in places]
    asked = _judge_until(request, prepared, shown, found, names, ranks, places)
    group = prepared.on_cpu()
    found.rejected += [one for one in group.not_runnable if one.instance_type in asked]


def _judge_until(
    request: Request,
    prepared: Prepared,
    shown: int,
    found: Found,
    names: Sequence[str],
    ranks: Floats,
    places: Integers | None = None,
) -> set[str]:
    """Judge types in growing groups, while more could be shown; their names. `places` where
    some could lie on the front."""
    asked: set[str] = set()
    rest, size = list(range(len(names))), _FIRST_GROUP
    while rest:
        some, rest = rest[:size], rest[size:]
        limit = _smallest(found.costs(request), shown)
        front = None if places is None else found.front()
        wanted = [
            names[at]
            for at in some
            if ranks[at] <= limit
            or (places is not None and _may_lead(request, prepared, int(places[at]), front))
        ]
        size *= 2
        if not wanted:
            continue
        asked.update(wanted)
        group = prepared.on_cpu(wanted)
        if group.table is not None:
            kinds = np.array([name in set(wanted) for name in group.table.names], dtype=bool)
            if kinds.any():
                found.looked.append(_judged(request, prepared, group, kinds, limit))
    return asked


def _least_usd(request: Request, table: Table) -> Floats:
    """The least price of each type (by kind) with which it answers; infinite where it does not."""
    rows = np.flatnonzero(answering(request, table))
    least = np.full(len(table.names), np.inf)
    np.minimum.at(least, table.kind[rows], table.usd[rows])
    return least


def _judged(
    request: Request,
    prepared: Prepared,
    group: Group,
    asked: Booleans | None = None,
    last_shown: float = math.inf,
) -> Looked:
    """What types of a group do (`asked` by kind; None: all), with the disk that suits them where
    they may rank before the last that is shown."""
    assert group.table is not None
    if asked is None:
        asked = np.ones(len(group.table.names), dtype=bool)
    rows = asked[group.table.kind]
    place = np.cumsum(rows) - 1  # of the group's rows among those of the types that are asked for
    table = group.table if rows.all() else group.table.take(rows)
    coarse = completed(request, table)
    judged = list(limits(request, coarse))
    beyond = np.zeros(len(asked), dtype=bool)
    rows = np.ones(len(coarse), dtype=bool)
    slow: list[tuple[int, str]] = []
    missing, near = asked, asked
    if is_plain(request):
        fast = answering(request, coarse, but_for=("over_max_price",))
        able = _kinds_of(coarse, fast)
        least = _least_usd(request, coarse)
        last = min(last_shown, _smallest(least, request.max_results))
        near = able & (coarse.cheapest_offer <= last)
        beyond = able & ~near & (least < np.inf)
        rows = fast & near[coarse.kind]
        reached = np.zeros(len(asked), dtype=bool)
        if request.target_throughput is not None:
            reached = _kinds_of(coarse, coarse.lower >= request.target_throughput)
        quickly = asked & ~able & ~reached
        reasons = [group.fastest[kind] for kind in np.flatnonzero(quickly).tolist()]
        slow = [(int(place[row]), reason) for row, reason in reasons]
        missing = asked & ~quickly
    whole = with_fitted_disks(request, prepared.catalog, coarse, rows, last_shown)
    judged = judged if whole is coarse else list(limits(request, whole))
    good = np.logical_and.reduce([near[whole.kind], *(one.keeps for one in judged)])
    best = best_rows(request, whole, np.flatnonzero(good))
    answered = beyond.copy()
    answered[whole.kind[best]] = True
    lacking = np.flatnonzero((missing & ~answered)[whole.kind])
    front = None
    if wants_front(request):
        front = _front(request, whole, good)
    return Looked(
        table=whole,
        best=best,
        missed=slow + closest_of_each(judged, whole, lacking),
        beyond=beyond,
        front=front,
    )


def _front(request: Request, table: Table, good: Booleans) -> Table:
    """What nothing beats: hard disks, too, which the ranking seldom needs."""
    kinds = np.zeros(len(table.names), dtype=bool)
    kinds[table.kind] = True
    slow = Table.joined([block.on_hard_disks for block in table.blocks])
    slow = completed(request, slow.take(kinds[slow.kind]))
    every = table.take(good).beside(slow.take(answering(request, slow)))
    return every.take(pareto_rows(every, np.arange(len(every))))


def _kinds_of(table: Table, rows: Booleans) -> Booleans:
    """Which types (by kind) some rows are of."""
    kinds = np.zeros(len(table.names), dtype=bool)
    kinds[table.kind[rows]] = True
    return kinds


def _smallest(values: Floats, count: int) -> float:
    """The `count`-th smallest; infinite where there are fewer."""
    return math.inf if count > len(values) else float(np.partition(values, count - 1)[count - 1])


def _may_lead(request: Request, prepared: Prepared, place: int, front: Table | None) -> bool:
    """Whether a type could lie on the front: nothing there is as cheap and as fast as it."""
    if not wants_front(request):
        return False
    if front is None:
        return True
    usd, rate = prepared.cpus.usd[place], prepared.cpus.most[place] * request.max_count
    return not bool(((front.usd <= usd) & (front.lower >= rate)).any())
