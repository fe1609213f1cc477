"""Borderline candidates: where the prediction decides narrowly, and one trial would settle it.

Three kinds. A cheaper spec whose upper bound reaches the target though its lower bound does not;
the chosen one, when it only just answers and a little dearer one is much safer; the nearest one,
when nothing is sure enough. A trial is worth the chance that the prediction decides wrongly, times
what that costs: by the hour over the horizon, or, where a run is asked for, by the run. It is told
only where it is worth more than it costs. What is recommended does not depend on any of this.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from advisor.domain import Candidate, CloseCall, CloseCallKind, DiskChoice, Request
from advisor.engine.limits import answering, at_count, cost
from advisor.engine.prepared import Prepared
from advisor.engine.probability import CLOSE_LOOK, Bounds, chance_of_reaching, chances_of_reaching
from advisor.engine.table import Table
from advisor.models.zoo.networks import can_be_run

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats

# Assumed, not measured: 8 to start an instance, install torch and make the sample, 2 to measure.
TRIAL_MINUTES = 10.0
# AWS bills Linux on demand, and its volumes, by the second, and for a minute at least.
BILLING_MINIMUM_MINUTES = 1.0
# A smaller chance to be wrong is not borderline, whatever is at stake.
LEAST_CHANCE = 0.05
# A much safer spec misses at most this part as often as the chosen one.
MUCH_SAFER = 0.25
MOST_CALLS = 3
_AT_A_TIME = 8


class _Contender(NamedTuple):
    """A row of a table, what it ranks by (USD per hour, or per run), and its chance of reaching the
    target."""

    table: Table
    at: int
    cost: float
    chance: float

    @property
    def batch(self) -> int:
        """Its batch size."""
        return int(self.table.batch[self.at])

    @property
    def trial_usd(self) -> float:
        """What a trial costs: one instance tells what all of them reach."""
        return trial_cost_usd(float(self.table.usd_each[self.at]))


class _Narrow(Struct, frozen=True):
    """A contender whose trial is worth more than it costs, and what it is held against."""

    kind: CloseCallKind
    contender: _Contender
    instead: _Contender | None
    worth_usd: float

    @property
    def urgency(self) -> float:
        """What a trial saves beyond its cost; where nothing answers, how much of a chance of an
        answer a dollar buys."""
        if self.instead is None:
            return self.contender.chance / self.contender.trial_usd
        return self.worth_usd - self.contender.trial_usd


def close_calls(
    request: Request, prepared: Prepared, table: Table, ranked: Iterable[int], shown: Mapping[int, Candidate]
) -> tuple[CloseCall, ...]:
    """The borderline candidates of an answer, the one whose trial is worth most first; at most
    three.

    `ranked` are the rows that answer, by rank, the chosen one first; `shown` are those of them that
    are records already. Empty without a target, and where no trial can run what is asked.
    """
    measurable = request.can_be_measured and can_be_run(request.network)
    if request.target_throughput is None or not measurable:
        return ()
    by_rank = iter(ranked)
    first = next(by_rank, None)
    costs = cost(request, table)
    limit = math.inf if first is None else float(costs[first])
    rows = [(one.table, one.at) for one in _contenders(request, table, limit)]
    *contenders, last = _looked_at(request, prepared, [*rows, (table, first or 0)])
    chosen = None if first is None else last
    found = [_cheaper(request, contender, chosen) for contender in contenders]
    if chosen is not None and _one_gpu(table)[chosen.at]:
        found.append(_chosen(request, prepared, chosen, by_rank))
    worth = [one for one in found if one is not None and one.worth_usd > one.contender.trial_usd]
    worth.sort(key=lambda one: -one.urgency)
    return _records(request, table, shown, worth[:MOST_CALLS])


def worth_of_trials(chances: Floats, taken: Booleans, costs: Floats) -> Floats:
    """What one trial of each candidate is expected to save, in units of what it ranks by, (q, c).

    q questions about c candidates by rank: `chances` (q, c) are those of reaching the target,
    `taken` (q, c) says whose prediction is enough to be chosen, `costs` (c,) do not fall.
    A candidate that is taken costs all of its own where it misses; one that is turned down what the
    next taken one costs more, or all of its own where none is taken: then it is the answer that
    is missed.
    """
    worth = np.zeros(chances.shape)
    wrong = np.where(taken, 1.0 - chances, chances)
    # What is taken when all from here on are turned down: nothing, which costs the answer.
    dearer = np.full(len(chances), np.nan)
    for candidate in reversed(range(len(costs))):
        usd = costs[candidate]
        overspend = np.where(np.isnan(dearer), 1.0, dearer / usd - 1.0)
        here = taken[:, candidate]
        worth[:, candidate] = wrong[:, candidate] * np.where(here, 1.0, overspend)
        dearer = np.where(here, usd, dearer)
    return worth


def trial_cost_usd(usd_per_hour: float, minutes: float = TRIAL_MINUTES) -> float:
    """What a trial costs, instance and disk, rounded up to the least that is billed."""
    return usd_per_hour * max(BILLING_MINIMUM_MINUTES, minutes) / 60


def _contenders(request: Request, table: Table, limit: float) -> list[_Contender]:
    """Of each type the spec with the greatest expected saving, of those whose upper bound reaches
    the target and that costs less than the chosen one; few, since each gets a close look."""
    target = request.target_throughput or 0.0
    slower = [table.take(_borderline(request, table, limit))]
    if request.max_count > 1:
        # With one instance less than it takes.
        counted = table.take(table.count > 1)
        fewer = at_count(counted, counted.count - 1)
        slower.append(fewer.take(_borderline(request, fewer, limit)))
    specs: dict[tuple[str, DiskChoice, int], list[_Contender]] = defaultdict(list)
    for some in slower:
        chances = chances_of_reaching(some.lower, some.median, some.upper, request.confidence, target)
        costs, names = cost(request, some).tolist(), some.names[some.kind].tolist()
        for at, (name, each, chance) in enumerate(zip(names, costs, chances, strict=True)):
            key = name, some.disk[at].choice, int(some.count[at])
            specs[key].append(_Contender(some, at, each, chance))
    best: dict[str, _Contender] = {}
    for (name, *_), group in specs.items():
        offered = _with_good_batch(group)
        if name not in best or _saving(offered, limit) > _saving(best[name], limit):
            best[name] = offered
    return sorted(best.values(), key=lambda one: -_saving(one, limit))[: 2 * MOST_CALLS]


def _borderline(request: Request, table: Table, limit: float) -> Booleans:
    """Rows that would answer if their rate were enough, as their upper bound is."""
    target = request.target_throughput or 0.0
    near = (table.lower < target) & (target <= table.upper) & (cost(request, table) < limit)
    near &= _one_gpu(table)
    return near & answering(request, table, but_for=("too_slow",)) if near.any() else near


def _one_gpu(table: Table) -> Booleans:
    """A trial is one process on one GPU, and settles nothing of several."""
    gpus = np.concatenate([block.gpus for block in table.blocks])
    return np.asarray(gpus[table.option] == 1)


def _with_good_batch(same_spec: Sequence[_Contender]) -> _Contender:
    """The smallest batch that is about as likely to reach the target as any."""
    enough = 0.95 * max(one.chance for one in same_spec)
    return min((one for one in same_spec if one.chance >= enough), key=lambda one: one.batch)


def _saving(one: _Contender, limit: float) -> float:
    """The chance that a spec reaches the target times what that saves; without a chosen one, the
    chance for each dollar."""
    return one.chance / one.cost if limit == math.inf else one.chance * (limit - one.cost)


def _looked_at(request: Request, prepared: Prepared, rows: Sequence[tuple[Table, int]]) -> list[_Contender]:
    """Rows of tables with their chances, by bounds at several confidences."""
    target, confidence = request.target_throughput or 0.0, request.confidence
    found, costs = [], {id(table): cost(request, table) for table, _ in rows}
    others = prepared.at_confidences(rows, CLOSE_LOOK)
    for (table, at), bounds in zip(rows, others, strict=True):
        count = int(table.count[at])
        each = table.lower_each[at], table.median_each[at], table.upper_each[at]
        lower, median, upper = (count * float(rate) for rate in each)
        own = Bounds(lower, median, upper, confidence, bool(table.calibrated[at]))
        chance = chance_of_reaching([own, *bounds], target)
        found.append(_Contender(table, at, float(costs[id(table)][at]), chance))
    return found


def _cheaper(request: Request, contender: _Contender, chosen: _Contender | None) -> _Narrow | None:
    """A spec that is turned down, against the chosen one or against no answer at all."""
    if contender.chance < LEAST_CHANCE:
        return None
    if chosen is None:
        worth = _worth(request, [contender], [False])
        return _Narrow(CloseCallKind.NEAREST_MAY_REACH, contender, None, worth)
    worth = _worth(request, [contender, chosen._replace(chance=1.0)], [False, True])
    return _Narrow(CloseCallKind.CHEAPER_MAY_REACH, contender, chosen, worth)


def _chosen(request: Request, prepared: Prepared, first: _Contender, dearer: Iterator[int]) -> _Narrow | None:
    """The chosen spec, where it may well miss and a dearer one hardly does."""
    miss = 1 - first.chance
    if miss < LEAST_CHANCE:
        return None
    # By rank, a few at a time: often one of the first is safe, and the list may be long.
    while some := list(islice(dearer, _AT_A_TIME)):
        for one in _looked_at(request, prepared, [(first.table, at) for at in some]):
            if 1 - one.chance <= MUCH_SAFER * miss:
                worth = _worth(request, [first], [True])
                return _Narrow(CloseCallKind.CHOSEN_MAY_MISS, first, one, worth)
    return None


def _worth(request: Request, by_rank: Sequence[_Contender], taken: Sequence[bool]) -> float:
    """What a trial of the first is expected to save, over the horizon or on the run, in USD."""
    shares = worth_of_trials(
        np.array([[one.chance for one in by_rank]]),
        np.array([taken]),
        np.array([one.cost for one in by_rank]),
    )
    times = request.horizon_hours if request.ranks_by_price else 1.0
    return float(shares[0, 0]) * by_rank[0].cost * times


def _records(
    request: Request, table: Table, shown: Mapping[int, Candidate], found: Sequence[_Narrow]
) -> tuple[CloseCall, ...]:
    """As they are told; records are made of those that are none yet, all of a table at once."""
    known = {(id(table), at): candidate for at, candidate in shown.items()}
    missing: dict[int, tuple[Table, list[int]]] = {}
    for one in found:
        for each in (one.contender, one.instead):
            if each is not None and (id(each.table), each.at) not in known:
                missing.setdefault(id(each.table), (each.table, []))[1].append(each.at)
    for name, (some, rows) in missing.items():
        for at, candidate in zip(rows, some.candidates(rows, request), strict=True):
            known[name, at] = candidate
    return tuple(_call(request, one, known) for one in found)


def _call(request: Request, one: _Narrow, known: Mapping[tuple[int, int], Candidate]) -> CloseCall:
    contender, instead = one.contender, one.instead
    candidate = known[id(contender.table), contender.at]
    other = None if instead is None else known[id(instead.table), instead.at]
    saves_per_run = None
    if instead is not None and not request.ranks_by_price:
        saves_per_run = instead.cost - contender.cost
    return CloseCall(
        kind=one.kind,
        candidate=candidate,
        instead=other,
        probability=contender.chance,
        saves_usd_per_hour=other.spec.total_usd_per_hour - candidate.spec.total_usd_per_hour
        if other
        else None,
        saves_usd_per_run=saves_per_run,
        trial_minutes=max(BILLING_MINIMUM_MINUTES, TRIAL_MINUTES),
        trial_usd=contender.trial_usd,
        worth_usd=one.worth_usd,
    )
