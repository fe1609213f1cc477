"""Chooses which instance types to judge: all with an accelerator, and the CPU types that may be shown.

A bound selects these: computing alone is never slower than the whole work, and no disk is cheaper than none.
Over all clouds, types that cost more than the last one shown are not looked at. Within one cloud all are,
since its users want to know why each type is rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Candidate, Rejected
from advisor.engine.candidates import cpu_rates_are_known, cpus_may_compete
from advisor.engine.columns import Booleans, Floats, Integers
from advisor.engine.disks import with_fitted_disks
from advisor.engine.limits import (
    answering,
    best_rows,
    closest_of_each,
    completed,
    good_batches,
    is_plain,
    keeping_all,
    limits,
    rank,
    wants_front,
)
from advisor.engine.prepared import Listing, Predicted, Prepared
from advisor.engine.rejected import CpuTypes, SlowCpus, ranked_by_bound
from advisor.engine.table import Table
from advisor.questions.network import NetworkQuestion

# The number of types predicted first where the cheapest may be enough, and how many more for each spec to
# show; each further group is twice as large.
_FIRST_GROUP, _FOR_EACH_SHOWN = 8, 4


class Judged(Struct, frozen=True, kw_only=True):
    """The verdicts on some types: the table of their rows with fitted disks, the best row of each type that
    may be shown, a row and the reason of each rejected one, and the types (by kind) that answer `beyond` the
    prices shown."""

    table: Table
    best: Integers
    missed: list[tuple[int, str]]
    beyond: Booleans
    front: Table | None = None

    def within(self, wanted: Callable[[str], bool]) -> Judged:
        """The verdicts on some types only, by name; the rows of the others stay in the table."""
        kinds, some = self.table.kind, np.array([wanted(name) for name in self.table.names])
        return replace(
            self,
            best=self.best[some[kinds[self.best]]],
            missed=[(row, reason) for row, reason in self.missed if some[kinds[row]]],
            beyond=self.beyond & some,
        )

    def beside(self, other: Judged) -> Judged:
        """These verdicts, followed by those on other types of a table that may have grown since."""
        rows, beyond = len(self.table), other.beyond.copy()
        beyond[: len(self.beyond)] |= self.beyond
        return Judged(
            table=self.table.beside(other.table),
            best=np.concatenate([self.best, other.best + rows]),
            missed=[*self.missed, *((row + rows, reason) for row, reason in other.missed)],
            beyond=beyond,
            front=_front_of(self.front, other.front),
        )


class Judgement(Struct, kw_only=True):
    """The verdicts on all types of a prepared workload and place: those judged by rows (None: none runs),
    other rejected types, and the number of offers considered."""

    prepared: Prepared
    listing: Listing
    judged: Judged | None = None
    rejected: list[Rejected] = field(default_factory=list)
    slow: list[SlowCpus] = field(default_factory=list)
    considered: int = 0

    def last_shown(self, request: NetworkQuestion, shown: int) -> float:
        """The rank of the last of the `shown` best types; infinite where there are fewer."""
        if self.judged is None:
            return math.inf
        return _smallest(rank(request, self.judged.table)[self.judged.best], shown)

    def add(self, judged: Judged | None) -> None:
        """Adds the verdicts on more types."""
        if judged is not None:
            self.judged = judged if self.judged is None else self.judged.beside(judged)


def judgement(
    request: NetworkQuestion, prepared: Prepared, listing: Listing, shown: int, fitted: int | None
) -> Judgement:
    """The types that may be among the `shown` best, or on the front, and the reasons against the others.
    Disks are fitted for types that may be among the `fitted` best (None: the request's `max_results`)."""
    cpus = cpus_may_compete(request) and cpu_rates_are_known(request)
    verdicts = Judgement(prepared=prepared, listing=listing)
    if is_plain(request):
        _judge_by_price(request, verdicts, shown, fitted, cpus=cpus)
        return verdicts
    names, verdicts.considered = frozenset(listing.offers), listing.considered
    verdicts.rejected += prepared.with_types(listing.offers, listing.offers).rejected(names)
    verdicts.add(_judged(request, prepared, names))
    if cpus:
        types = prepared.cpus(listing.cpus(math.inf))
        if types.most.any():
            _judge_cpus_in_groups(request, types, shown, verdicts)
    return verdicts


def _judge_by_price(
    request: NetworkQuestion, verdicts: Judgement, shown: int, fitted: int | None, *, cpus: bool
) -> None:
    """Judges the types that could be as cheap as the last shown, in one table."""
    prepared, listing, leaves_out_dear = verdicts.prepared, verdicts.listing, request.cloud == "any"
    lowest = listing.lowest_by_type if leaves_out_dear else {}
    if leaves_out_dear:
        first = _FIRST_GROUP + _FOR_EACH_SHOWN * min(request.max_results, len(lowest))
        names, ranks = _cheap(request, lowest, prepared, np.empty(0), first, request.max_results)
    else:
        names, verdicts.considered = frozenset(listing.offers), listing.considered
        predicted = prepared.with_types(listing.offers, listing.offers)
        ranks = _ranks_at_steps(request, predicted, names) if cpus else np.empty(0)
    looked_at, rank_of = names, dict[str, float]()
    last = _smallest(ranks, shown)
    types = prepared.cpus(listing.cpus(last if leaves_out_dear else math.inf)) if cpus else None
    if types is not None and types.most.any():
        verdicts.considered += 0 if leaves_out_dear else len(types.types)
        rank_of, verdicts.slow, rejected = ranked_by_bound(request, types, last)
        verdicts.rejected += rejected
        looked_at |= _cheap(request, rank_of, prepared, ranks, _FIRST_GROUP, shown)[0]
    verdicts.add(_judged(replace(request, max_results=fitted or request.max_results), prepared, looked_at))
    limit = verdicts.last_shown(request, shown)
    # The answer must not depend on which further types earlier requests had predicted.
    wanted = {name for name, rank in rank_of.items() if rank <= limit}
    if leaves_out_dear:
        dearest = verdicts.last_shown(request, request.max_results)
        names = frozenset(name for name, usd in lowest.items() if usd <= dearest)
        verdicts.considered += len(names)
        if types is not None:
            verdicts.considered += int(np.searchsorted(types.usd, dearest, side="right"))
        verdicts.slow = [slow.up_to(dearest) for slow in verdicts.slow]
    verdicts.rejected += prepared.predicted.rejected(wanted | names)
    if verdicts.judged is not None:
        verdicts.judged = verdicts.judged.within(lambda name: name in wanted or name in names)


def _cheap(
    request: NetworkQuestion,
    bounds: Mapping[str, float],
    prepared: Prepared,
    ranks: Floats,
    first: int,
    shown: int,
) -> tuple[frozenset[str], Floats]:
    """The names of types that could be shown, and the given `ranks` of other types with theirs added. Types
    are predicted in growing groups, by the `bounds` of their ranks, while one could be among the best."""
    looked_at: frozenset[str] = frozenset()
    rest, size, limit = list(bounds), first, math.inf
    while rest and bounds[rest[0]] <= limit:
        some = [name for name in rest[:size] if bounds[name] <= limit]
        looked_at |= frozenset(some)
        fresh = _ranks_at_steps(request, prepared.with_types(some), frozenset(some))
        ranks = np.concatenate([ranks, fresh])
        rest, size, limit = rest[size:], 2 * size, _smallest(ranks, shown)
    return looked_at, ranks


def _ranks_at_steps(request: NetworkQuestion, predicted: Predicted, names: frozenset[str]) -> Floats:
    """The least rank of each named type that runs, with the catalogue's disk sizes."""
    if predicted.table is None:
        return np.empty(0)
    some = np.array([name in names for name in predicted.table.names])
    table = predicted.table.take(some[predicted.table.kind])
    table = completed(request, table)
    return np.asarray(_least_ranks(request, table, answering(request, table))[some])


def _judge_cpus_in_groups(request: NetworkQuestion, cpus: CpuTypes, shown: int, verdicts: Judgement) -> None:
    """Judges CPU types in growing groups, until no further one could be shown or be on the front."""
    last = math.inf if wants_front(request) else verdicts.last_shown(request, shown)
    verdicts.considered += len(cpus.types)
    rank_of, verdicts.slow, rejected = ranked_by_bound(request, cpus, last)
    verdicts.rejected += rejected
    places = {cpu.name: index for index, cpu in enumerate(cpus.types) if cpu.name in rank_of}
    judged: frozenset[str] = frozenset()
    rest, size = list(rank_of), _FIRST_GROUP
    while rest:
        some, rest, size = rest[:size], rest[size:], 2 * size
        limit = verdicts.last_shown(request, shown)
        front = None if verdicts.judged is None else verdicts.judged.front
        wanted = frozenset(
            name
            for name in some
            if rank_of[name] <= limit
            or (wants_front(request) and _may_lead(request, cpus, places[name], front))
        )
        if wanted:
            judged |= wanted
            verdicts.prepared.with_types([name for name in some if name in wanted])
            verdicts.add(_judged(request, verdicts.prepared, wanted, limit))
    verdicts.rejected += verdicts.prepared.predicted.rejected(judged)


def _may_lead(request: NetworkQuestion, cpus: CpuTypes, index: int, front: Table | None) -> bool:
    """True if a CPU type could be on the front: no spec there is as cheap and as fast."""
    if front is None:
        return True
    usd, rate = cpus.usd[index], cpus.most[index] * request.max_count
    return not bool(((front.usd <= usd) & (front.lower >= rate)).any())


def _least_ranks(request: NetworkQuestion, table: Table, answers: Booleans) -> Floats:
    """The least rank of each type (by kind) with which it answers; infinite where it does not."""
    rows = np.flatnonzero(answers)
    least = np.full(len(table.names), np.inf)
    np.minimum.at(least, table.kind[rows], rank(request, table.take(rows)))
    return least


def _judged(
    request: NetworkQuestion, prepared: Prepared, names: frozenset[str], last_shown: float = math.inf
) -> Judged | None:
    """The verdicts on the named types, with fitted disks where they may be shown; None where none runs."""
    predicted = prepared.predicted
    if predicted.table is None:
        return None
    wanted = np.array([name in names for name in predicted.table.names])
    if not wanted.any():
        return None
    coarse = completed(request, predicted.table.take(wanted[predicted.table.kind]))
    judged = list(limits(request, coarse))
    beyond = np.zeros(len(wanted), dtype=bool)
    rows = np.ones(len(coarse), dtype=bool)
    near = wanted
    if is_plain(request):
        fast = keeping_all(judged, len(coarse), ("over_max_price",))
        able = _kinds_of(coarse, fast)
        least = _least_ranks(request, coarse, keeping_all(judged, len(coarse)))
        last = min(last_shown, _smallest(least, request.max_results))
        # A type that is too dear with the catalogue's disk sizes may answer with another size.
        within = coarse.source.cheapest_offer <= (request.max_usd_per_hour or 0.0)
        near = able & ((coarse.source.cheapest_offer <= last) | (np.isinf(least) & within))
        beyond = able & ~near & (least < np.inf)
        rows = fast & near[coarse.kind]
    whole = with_fitted_disks(request, prepared.catalog, coarse, rows, last_shown)
    judged = judged if whole is coarse else list(limits(request, whole))
    good = near[whole.kind] & keeping_all(judged, len(whole))
    best = best_rows(request, whole, np.flatnonzero(good))
    answered = beyond.copy()
    answered[whole.kind[best]] = True
    lacking = np.flatnonzero((wanted & ~answered)[whole.kind])
    return Judged(
        table=whole,
        best=best,
        missed=closest_of_each(judged, whole.kind, whole.usd, lacking),
        beyond=beyond,
        front=_front(request, whole, good) if wants_front(request) else None,
    )


def _front(request: NetworkQuestion, table: Table, good: Booleans) -> Table:
    """The rows that no other beats in price and rate."""
    every = table.take(good)
    return _leading(every.take(good_batches(request, every)))


def _front_of(front: Table | None, other: Table | None) -> Table | None:
    return front if other is None else other if front is None else _leading(front.beside(other))


def _leading(table: Table) -> Table:
    """The rows that no other beats in price or lower bound without losing in the other, cheapest first; of
    equal ones the first by name, then by the smaller batch."""
    _, by_name = np.unique(table.names.astype(str), return_inverse=True)
    lower = table.lower
    order = np.lexsort((table.batch, by_name.reshape(-1)[table.kind], -lower, table.usd))
    before = np.concatenate([[-np.inf], np.maximum.accumulate(lower[order])])[: len(order)]
    return table.take(order[lower[order] > before])


def _kinds_of(table: Table, rows: Booleans | slice) -> Booleans:
    """The types (by kind) of some rows."""
    kinds = np.zeros(len(table.names), dtype=bool)
    kinds[table.kind[rows]] = True
    return kinds


def _smallest(values: Floats, count: int) -> float:
    """The `count`-th smallest value; infinite where there are fewer."""
    return math.inf if count > len(values) else float(np.partition(values, count - 1)[count - 1])


# Nobody takes a spec with less than a fiftieth of the cheapest one's rate. On the front, nobody takes one
# with less than a twentieth of the recommended one's rate, or with samples at over five times its cost.
LEAST_SHARE, LEAST_OF_FRONT, MOST_TIMES = 0.02, 0.05, 5.0


def specs_of(request: NetworkQuestion, table: Table) -> list[Candidate]:
    """The candidates of all specs of a table that answer, each at its good batch."""
    table = completed(request, table)
    table = table.take(answering(request, table))
    return table.candidates(good_batches(request, table).tolist(), request)


def pareto_front(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Candidates that no other beats in both price and lower bound, cheapest first."""
    front: list[Candidate] = []
    for candidate in sorted(candidates, key=_order):
        if not front or candidate.prediction.lower > front[-1].prediction.lower:
            front.append(candidate)
    return tuple(front)


def worth_taking(front: tuple[Candidate, ...], chosen: Candidate | None) -> tuple[Candidate, ...]:
    """The candidates of a front that somebody may take instead of the chosen one, with that one, by price."""
    if chosen is None or not front:
        return front
    spec, lower = chosen.spec, chosen.prediction.lower
    same = spec.offer, spec.count, spec.disk.choice
    near = [
        candidate
        for candidate in front
        if candidate.prediction.lower >= LEAST_OF_FRONT * lower
        and candidate.usd_per_million_samples <= MOST_TIMES * chosen.usd_per_million_samples
        and (candidate.spec.offer, candidate.spec.count, candidate.spec.disk.choice) != same
    ]
    return tuple(sorted([*near, chosen], key=_order))


def _order(candidate: Candidate) -> tuple[float, float, str, int]:
    spec = candidate.spec
    return (
        spec.total_usd_per_hour,
        -candidate.prediction.lower,
        spec.offer.instance.name,
        candidate.workload.batch_size,
    )
