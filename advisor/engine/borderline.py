"""Borderline candidates: where the prediction decides narrowly, and one trial would settle it.

Three kinds. A cheaper spec that may meet target and limits though it is not sure to; the chosen
one, when it only just answers and a little dearer one is much safer; the nearest one, when nothing
is sure enough. A trial is worth the chance that the prediction decides wrongly, times what that
costs: by the hour over the horizon, or, where a run is asked for, by the run. It is told only where
it is worth more than it costs. What is recommended does not depend on any of this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Generic

import numpy as np
from msgspec import Struct

from advisor.domain import CloseCall, CloseCallKind
from advisor.engine.task import TRIAL_MINUTES, A, C, Contender, O, R, T, Task

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats

# AWS bills Linux on demand, and its volumes, by the second, and for a minute at least.
BILLING_MINIMUM_MINUTES = 1.0
# A smaller chance to be wrong is not borderline, whatever is at stake.
LEAST_CHANCE = 0.05
# A much safer spec misses at most this part as often as the chosen one.
MUCH_SAFER = 0.25
MOST_CALLS = 3
_AT_A_TIME = 8


class _Narrow(Struct, Generic[T], frozen=True):
    """A contender whose trial may be worth more than it costs, and what it is held against."""

    kind: CloseCallKind
    contender: Contender[T]
    instead: Contender[T] | None
    worth_usd: float

    @property
    def trial_usd(self) -> float:
        """A trial on one instance tells what all of them reach."""
        usd_each = float(self.contender.table.usd_each[self.contender.row])
        return trial_cost_usd(usd_each, self.contender.trial_minutes)

    @property
    def urgency(self) -> float:
        """The saving of a trial beyond its cost; where nothing answers, the chance of an answer that a
        dollar buys."""
        if self.instead is None:
            return self.contender.chance / self.trial_usd
        return self.worth_usd - self.trial_usd


def close_calls(
    task: Task[R, O, T, C, A], request: R, options: O, table: T, ranked: Iterable[int], shown: Mapping[int, C]
) -> tuple[CloseCall, ...]:
    """The borderline candidates of an answer, the one whose trial is worth most first; at most
    three.

    `ranked` are the rows that answer, by rank, the chosen one first; `shown` are those of them that
    are records already.
    """
    if not task.trials_tell(request):
        return ()
    by_rank = iter(ranked)
    first = next(by_rank, None)
    limit = math.inf if first is None else float(task.cost(request, table)[first])
    best = _best_of_each_type(task.contenders(request, options, table, limit), limit)
    if first is None and not best:
        return ()
    *contenders, last = task.looked_at(
        request, options, [*((each.table, each.row) for each in best), (table, first or 0)]
    )
    chosen = None if first is None else last
    narrow = [
        _cheaper(task, request, contender, chosen)
        for contender in contenders
        if contender.chance >= LEAST_CHANCE
    ]
    if chosen is not None and chosen.settled:
        narrow += _chosen(task, request, options, chosen, by_rank)
    worth = [call for call in narrow if call.worth_usd > call.trial_usd]
    worth.sort(key=lambda call: _most_first(call.urgency, call.contender))
    return tuple(_record(task, request, table, shown, call) for call in worth[:MOST_CALLS])


def worth_of_trials(chances: Floats, taken: Booleans, costs: Floats) -> Floats:
    """The expected saving of a trial of each candidate, in units of the ranking, (q, c).

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
    """The cost of a trial, instance and disk, rounded up to the least that is billed."""
    return usd_per_hour * max(BILLING_MINIMUM_MINUTES, minutes) / 60


def _best_of_each_type(contenders: Iterable[Contender[T]], limit: float) -> list[Contender[T]]:
    """The contender of each type with the greatest expected saving; few, since each gets a close look."""
    best: dict[tuple[str, str], Contender[T]] = {}
    for contender in contenders:
        instance = contender.table.offer(contender.row).instance
        kind = instance.cloud, instance.name
        if kind not in best or _saving(contender, limit) > _saving(best[kind], limit):
            best[kind] = contender
    by_saving = sorted(best.values(), key=lambda each: _most_first(_saving(each, limit), each))
    return by_saving[: 2 * MOST_CALLS]


def _most_first(value: float, contender: Contender[T]) -> tuple[float, str]:
    """A key that sorts by a falling value, and equal ones by name: their last bits depend on the table."""
    return -float(f"{value:.12g}"), contender.table.offer(contender.row).instance.name


def _saving(contender: Contender[T], limit: float) -> float:
    """The chance that a spec answers times what that saves; without a chosen one, the chance for
    each dollar."""
    return (
        contender.chance / contender.cost
        if limit == math.inf
        else contender.chance * (limit - contender.cost)
    )


def _cheaper(
    task: Task[R, O, T, C, A], request: R, contender: Contender[T], chosen: Contender[T] | None
) -> _Narrow[T]:
    """A spec that is turned down, against the chosen one or against no answer at all."""
    if chosen is None:
        worth = _worth(task, request, [contender], [False])
        return _Narrow(CloseCallKind.NEAREST_MAY_REACH, contender, None, worth)
    worth = _worth(task, request, [contender, chosen._replace(chance=1.0)], [False, True])
    return _Narrow(CloseCallKind.CHEAPER_MAY_REACH, contender, chosen, worth)


def _chosen(
    task: Task[R, O, T, C, A], request: R, options: O, first: Contender[T], dearer: Iterator[int]
) -> list[_Narrow[T]]:
    """The chosen spec, where it may well miss and a dearer one hardly does."""
    miss = 1 - first.chance
    if miss < LEAST_CHANCE:
        return []
    # By rank, a few at a time: often one of the first is safe, and the list may be long.
    while some := list(islice(dearer, _AT_A_TIME)):
        for dear in task.looked_at(request, options, [(first.table, row) for row in some]):
            if 1 - dear.chance <= MUCH_SAFER * miss:
                worth = _worth(task, request, [first], [True])
                return [_Narrow(CloseCallKind.CHOSEN_MAY_MISS, first, dear, worth)]
    return []


def _worth(
    task: Task[R, O, T, C, A], request: R, by_rank: Sequence[Contender[T]], taken: Sequence[bool]
) -> float:
    """The expected saving of a trial of the first, over the horizon or on the run, in USD."""
    shares = worth_of_trials(
        np.array([[contender.chance for contender in by_rank]]),
        np.array([taken]),
        np.array([contender.cost for contender in by_rank]),
    )
    times = request.horizon_hours if task.ranks_by_price(request) else 1.0
    return float(shares[0, 0]) * by_rank[0].cost * times


def _record(
    task: Task[R, O, T, C, A], request: R, table: T, shown: Mapping[int, C], narrow: _Narrow[T]
) -> CloseCall:
    def record(of: Contender[T]) -> C:
        if of.table is table and of.row in shown:
            return shown[of.row]
        return task.candidates(request, of.table, [of.row])[0]

    contender, instead = narrow.contender, narrow.instead
    candidate, other = record(contender), record(instead) if instead else None
    by_run = instead is not None and not task.ranks_by_price(request)
    return CloseCall(
        kind=narrow.kind,
        candidate=candidate,
        instead=other,
        probability=contender.chance,
        saves_usd_per_hour=other.spec.total_usd_per_hour - candidate.spec.total_usd_per_hour
        if other
        else None,
        saves_usd_per_run=instead.cost - contender.cost if instead and by_run else None,
        trial_minutes=max(BILLING_MINIMUM_MINUTES, contender.trial_minutes),
        trial_usd=narrow.trial_usd,
        worth_usd=narrow.worth_usd,
    )
