"""Which types are looked at, and what becomes of them: all that have an accelerator (for
preprocessing: all), and of the thousands without one those that could be shown.

A bound decides about these: the network alone on a CPU, everything else for nothing, is never
slower than what is predicted for the whole, and no disk is cheaper than none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from advisor.domain import Rejected, Request
from advisor.engine.candidates import cpu_rates_are_known, cpus_may_compete
from advisor.engine.disks import with_fitted_disks
from advisor.engine.limits import (
    answering,
    best_rows,
    closest_of_each,
    completed,
    cost,
    is_plain,
    limits,
    ranks_by_price,
    wants_front,
)
from advisor.engine.pareto import pareto_rows
from advisor.engine.prepared import Group, Prepared
from advisor.engine.rejected import SlowCpus
from advisor.engine.table import Table
from advisor.messages import Message
from advisor.records import dataclass, field

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers

# The first types without an accelerator that are looked at; each further group is twice as large.
_FIRST_GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What became of some types: all their rows, fitted disks among them, the best row of each that
    may be shown, a row and a reason of each that is turned down, and the types (by kind) that
    answer and are too dear to be shown."""

    table: Table
    best: Integers
    missed: list[tuple[int, str]]
    beyond: Booleans
    front: Table | None = None

    def within(self, names: Set[str]) -> Looked:
        """Only of types of some names."""
        wanted = np.array([name in names for name in self.table.names], dtype=bool)
        kinds = self.table.kind
        return Looked(
            table=self.table,
            best=self.best[wanted[kinds[self.best]]],
            missed=[(at, reason) for at, reason in self.missed if wanted[kinds[at]]],
            beyond=self.beyond & wanted,
            front=self.front,
        )


@dataclass(slots=True, kw_only=True)
class Found:
    """What became of all types: those that were looked at, others that are turned down, and how
    many offers there were."""

    looked: list[Looked] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    slow: list[SlowCpus] = field(default_factory=list)
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
    found, accelerated = Found(), prepared.accelerated
    found.considered = accelerated.offers
    found.rejected += accelerated.not_runnable
    if accelerated.table is not None:
        found.looked.append(_look(request, prepared, accelerated, accelerated.table))
    if cpus_may_compete(request) and cpu_rates_are_known(request):
        _look_at_cpus(request, prepared, shown, found)
    return found


def _look(
    request: Request,
    prepared: Prepared,
    group: Group,
    table: Table,
    last_shown: float = math.inf,
) -> Looked:
    """What the types in a table of a group do, with the disk that suits them where they may rank
    before the last that is shown."""
    coarse = completed(request, table)
    judged, kinds = list(limits(request, coarse)), len(coarse.names)
    asked = np.zeros(kinds, dtype=bool)
    asked[coarse.kind] = True
    beyond = np.zeros(kinds, dtype=bool)
    rows = np.ones(len(coarse), dtype=bool)
    slow: list[tuple[int, str]] = []
    near = asked
    if is_plain(request):
        fast = answering(request, coarse, but_for=("over_max_price",))
        able = np.zeros(kinds, dtype=bool)
        able[coarse.kind[fast]] = True
        usd, least = coarse.usd, np.full(kinds, np.inf)
        within = np.flatnonzero(fast & (usd <= (request.max_usd_per_hour or math.inf)))
        np.minimum.at(least, coarse.kind[within], usd[within])
        last = min(last_shown, _smallest(least, request.max_results))
        near = able & (coarse.cheapest_offer <= last)
        beyond = able & ~near & (least < np.inf)
        rows = fast & near[coarse.kind]
        reached = np.zeros(kinds, dtype=bool)
        if request.target_throughput is not None:
            reached[coarse.kind[coarse.lower >= request.target_throughput]] = True
        quickly = np.flatnonzero(asked & ~able & ~reached).tolist()
        places = None if table is group.table else _places(table, group)
        slow = [_moved(group.fastest[kind], places) for kind in quickly]
        asked = asked.copy()
        asked[quickly] = False
    whole = with_fitted_disks(request, prepared.catalog, coarse, rows, last_shown)
    judged = judged if whole is coarse else list(limits(request, whole))
    good = answering(request, whole)
    best = best_rows(request, whole, np.flatnonzero(good & near[whole.kind]))
    answered = beyond.copy()
    answered[whole.kind[best]] = True
    missing = np.flatnonzero((asked & ~answered)[whole.kind])
    front = None
    if wants_front(request):
        front = _front(request, whole, good)
    return Looked(
        table=whole,
        best=best,
        missed=slow + closest_of_each(judged, whole, missing),
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


def _places(table: Table, group: Group) -> dict[int, int]:
    """Where the rows of the group's table are in some of it."""
    assert group.table is not None
    kinds = np.zeros(len(table.names), dtype=bool)
    kinds[table.kind] = True
    rows = np.flatnonzero(kinds[group.table.kind])
    return {at: place for place, at in enumerate(rows.tolist())}


def _moved(row: tuple[int, str], places: dict[int, int] | None) -> tuple[int, str]:
    return row if places is None else (places[row[0]], row[1])


def _smallest(values: Floats, count: int) -> float:
    """The `count`-th smallest; infinite where there are fewer."""
    return math.inf if count > len(values) else float(np.partition(values, count - 1)[count - 1])


def _look_at_cpus(request: Request, prepared: Prepared, shown: int, found: Found) -> None:
    """Types without an accelerator, the cheapest first, until nothing more could be shown."""
    cpus = prepared.cpus
    if not cpus.types or not cpus.most.any():
        return  # what the network computes is not known: no CPU can be judged
    found.considered += len(cpus.types)
    last = math.inf if wants_front(request) else _smallest(found.costs(request), shown)
    places, ranks = _worth_a_look(request, prepared, found, last)
    names = [cpus.types[place].name for place in places]
    if is_plain(request):
        # What an earlier question asked for is told by columns, all at once.
        known = prepared.on_cpu()
        at_once = [name for name in names if name in known.names]
        if at_once:
            _look_at(request, prepared, at_once, last, found)
        rest = [at for at, name in enumerate(names) if name not in known.names]
    else:
        rest = list(range(len(names)))
    size = _FIRST_GROUP
    while rest:
        some, rest = rest[:size], rest[size:]
        limit = _smallest(found.costs(request), shown)
        front = found.front()
        wanted = [
            names[at]
            for at in some
            if ranks[at] <= limit or _may_lead(request, prepared, int(places[at]), front)
        ]
        size *= 2
        if wanted:
            _look_at(request, prepared, wanted, limit, found)
    if is_plain(request):
        # Whatever was known before, the answer is about the same types.
        limit = _smallest(found.costs(request), shown)
        wanted_names = {name for name, rank in zip(names, ranks, strict=True) if rank <= limit}
        head = 1 if prepared.accelerated.table is not None else 0
        found.looked[head:] = [one.within(wanted_names) for one in found.looked[head:]]
        group = prepared.on_cpu()
        found.rejected += [one for one in group.not_runnable if one.instance_type in wanted_names]


def _look_at(
    request: Request, prepared: Prepared, names: Sequence[str], limit: float, found: Found
) -> None:
    """Judge and predict types whole."""
    group, wanted = prepared.on_cpu(names), frozenset(names)
    if not is_plain(request):
        found.rejected += [one for one in group.not_runnable if one.instance_type in wanted]
    if group.table is None:
        return
    kinds = np.array([name in wanted for name in group.table.names], dtype=bool)
    rows = kinds[group.table.kind]
    if rows.any():
        table = group.table if rows.all() else group.table.take(rows)
        found.looked.append(_look(request, prepared, group, table, limit))


def _may_lead(request: Request, prepared: Prepared, place: int, front: Table | None) -> bool:
    """Whether a type could lie on the front: nothing there is as cheap and as fast as it."""
    if not wants_front(request):
        return False
    if front is None:
        return True
    usd, rate = prepared.cpus.usd[place], prepared.cpus.most[place] * request.max_count
    return not bool(((front.usd <= usd) & (front.lower >= rate)).any())


def _worth_a_look(
    request: Request, prepared: Prepared, found: Found, last: float
) -> tuple[Integers, Floats]:
    """Places of types that may answer, and rank before the last that is shown, by the least that
    they could rank by; those that cannot answer are rejected, for the first limit that they miss
    however well they do."""
    cpus, target, count = prepared.cpus, request.target_throughput or 0.0, request.max_count
    most, usd = cpus.most, cpus.usd
    slow = most * count < target
    if slow.any():
        found.slow.append(SlowCpus(cpus, np.flatnonzero(slow), target, count))
    rates = np.where(slow, np.inf, most)
    with np.errstate(divide="ignore", invalid="ignore"):
        run_usd = usd / (rates * 3600) * (request.run_samples or 1e6)
        hours = (request.run_samples or 0.0) / (rates * count * 3600)
        needed = np.maximum(1.0, np.ceil(target / np.where(rates > 0, rates, np.inf)))
    ranks = usd * needed if ranks_by_price(request) else run_usd
    limited = any(limit is not None for limit in
                  (request.max_hours, request.max_run_usd, request.max_usd_per_hour))  # fmt: skip
    # Whether more than a rate is missed has to be told of each type.
    worth = ~slow & ((ranks <= last) | (not ranks_by_price(request) or limited))
    checks = (
        ("too_long", hours, request.max_hours,
         Message("its run takes {least:hours} or more (median), above {limit:hours}")),
        ("over_max_cost", run_usd, request.max_run_usd,
         Message("its run costs {least:usd} or more (median), above {limit:usd}")),
        ("over_max_price", usd, request.max_usd_per_hour,
         Message("{least:usd}/h is above {limit:usd}/h")),
    )  # fmt: skip
    for reason, values, limit, message in checks:
        if limit is None or (reason != "over_max_price" and not request.run_samples):
            continue
        missed = worth & (values > limit)
        found.rejected += [
            Rejected(
                cpus.types[at].name,
                reason,
                Message(message.text, code=reason, least=float(values[at]), limit=limit),
                cpus.types[at].usd_per_hour,
            )
            for at in np.flatnonzero(missed).tolist()
        ]
        worth &= ~missed
    places = np.flatnonzero(worth)
    order = np.argsort(ranks[places], kind="stable")
    return places[order], ranks[places][order]
