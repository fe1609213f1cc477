"""Workload + offers + performance model + target -> Recommendation. Pure: no clock, no files.

The answer is the cheapest spec (instance plus disk) whose lower bound meets the target;
without a target, the one with the lowest cost per sample. Every type that is passed over
keeps its reason.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import date
from heapq import merge
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple

from advisor.catalog import Catalog
from advisor.domain import Candidate, Latency, Recommendation, Rejected, Request
from advisor.engine.candidates import PerformanceModel
from advisor.engine.close_calls import close_calls
from advisor.engine.counting import (
    as_many_as_affordable,
    counted,
    require_countable,
    with_one_less,
)
from advisor.engine.cpu_only import CpuOnlySearch, Looked
from advisor.engine.disk_fitting import with_fitted_disks
from advisor.engine.field import passed_over
from advisor.engine.groups import Group, Judged, options_of
from advisor.engine.judging import GOOD_ENOUGH, Judge
from advisor.engine.pareto import pareto_front, wants_front
from advisor.engine.predicting import predicted
from advisor.engine.prepared import Prepared
from advisor.engine.reasons import affordable, answers, has_interval
from advisor.engine.runs import sure_rate, with_runs
from advisor.engine.wording import chosen_assumptions, soon_enough, warnings
from advisor.errors import NoIntervalError
from advisor.records import replace


def recommend(
    request: Request, catalog: Catalog, model: PerformanceModel, *, today: date
) -> Recommendation:
    """Answer one request.

    Raises `UsageError` for what the catalogue or the model does not know, and
    `NoIntervalError` where only predictions without a calibrated interval would answer.
    """
    require_countable(request)
    return decide(request, Prepared(request, catalog, model), today=today)


def decide(request: Request, prepared: Prepared, *, today: date) -> Recommendation:
    """Answer one of the requests that `prepared` is for; raises as `recommend` does."""
    require_countable(request)
    with prepared.deciding:
        answer = _decided(request, prepared, today)
        prepared.was_asked = True
    return answer


def _decided(request: Request, prepared: Prepared, today: date) -> Recommendation:
    judge = Judge(request)
    found = _found(judge, prepared, request.max_results)
    ranked = sorted(filter(judge.answers, found.best), key=judge.rank)
    if not ranked:
        _require_intervals(request, found.candidates)
    nearest = None if ranked else _nearest(request, found.candidates)
    shown = ranked[: request.max_results] if nearest is None else [nearest]
    told = _told(request, prepared, shown)
    ranked[: request.max_results] = told if ranked else []
    missed = (passed_over(request, one) for one in found.best if not judge.answers(one))
    rejected = [*found.turned_down, *missed, *prepared.unpriced]
    return Recommendation(
        request=request,
        ranked=tuple(ranked[: request.max_results]),
        nearest=None if nearest is None else told[0],
        beyond_price=None if ranked else _beyond_price(request, found.candidates),
        rejected=tuple(_cheapest_first(rejected)),
        offers_considered=found.considered,
        assumptions=chosen_assumptions(request, ranked[0] if ranked else None),
        warnings=warnings(ranked[0] if ranked else None, today),
        today=today,
        close_calls=close_calls(
            request,
            _but_for_speed(request, found),
            _all_ranked(judge, ranked, found),
            prepared.at_confidence,
        ),
        pareto=found.front,
    )


class _Found(NamedTuple):
    """The groups that were looked at, types without an accelerator that no look was worth, how many
    offers there were, and the Pareto front, where that is wanted."""

    looked: list[Looked]
    rejected: list[Rejected]
    considered: int
    front: tuple[Candidate, ...]

    @property
    def best(self) -> list[Candidate]:
        """The best one of each type that may be shown."""
        return [one for looked in self.looked for one in looked.best]

    @property
    def candidates(self) -> list[Candidate]:
        """All of them."""
        return [one for looked in self.looked for one in looked.candidates]

    @property
    def slower(self) -> list[Candidate]:
        """Those that may answer but for their speed."""
        return [one for looked in self.looked for one in (*looked.slower, *looked.fitted)]

    @property
    def turned_down(self) -> Iterator[Rejected]:
        """Types whatever their disk."""
        return chain(*(looked.rejected for looked in self.looked), self.rejected)


def _found(judge: Judge, prepared: Prepared, shown: int) -> _Found:
    """What accelerated types (for preprocessing: all) do, and of the others what may count."""
    accelerated = _look(judge, prepared, prepared.accelerated)
    search = CpuOnlySearch(
        judge, shown, prepared,
        look=lambda *asked: _look(judge, prepared, *asked),
        front_of=lambda some, all_: _front(judge, prepared, some, all_),
    )  # fmt: skip
    front = _front(judge, prepared, accelerated.group.judged, accelerated.candidates)
    on_cpu = search.beside(accelerated.best, front)
    return _Found(
        looked=[accelerated, *on_cpu.looked],
        rejected=on_cpu.rejected,
        considered=len(accelerated.group.judged) + on_cpu.considered,
        front=on_cpu.front,
    )


def _look(
    judge: Judge,
    prepared: Prepared,
    group: Group,
    last_shown: float = math.inf,
    names: Container[str] | None = None,
) -> Looked:
    """What a group does, with the cheapest disk where it may rank before the last that is shown."""
    request, field = judge.request, group.field
    near = field.shortlist(request, last_shown, names)
    coarse = _complete(request, prepared, near.candidates)
    fitted = with_fitted_disks(
        request, prepared.catalog, prepared.rows, near.options, coarse,
        answers=answers, rank=judge.rank, last_shown=last_shown,
        complete=lambda found: _complete(request, prepared, found),
    )  # fmt: skip
    whole = near.candidates is field.candidates
    return Looked(
        group=group,
        coarse=coarse if whole else field.candidates,
        slower=coarse if whole else near.slower,
        fitted=fitted,
        best=judge.best_of_each([*coarse, *fitted]),
        rejected=[*_of_names(group.not_runnable, names), *near.rejected],
        beyond=near.beyond,
        names=names,
    )


def _of_names(rejected: Sequence[Rejected], names: Container[str] | None) -> Sequence[Rejected]:
    return rejected if names is None else [one for one in rejected if one.instance_type in names]


def _front(
    judge: Judge, prepared: Prepared, judged: Sequence[Judged], candidates: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """The Pareto front, where it is wanted: hard disks, too, which the ranking seldom needs."""
    request = judge.request
    if not wants_front(request):
        return ()
    slow = [replace(one, disks=one.slow_disks) for one in options_of(judged) if one.slow_disks]
    limited = request.max_latency_ms is not None
    found = predicted(prepared.rows, slow, with_latency=limited)
    every = [*candidates, *_complete(request, prepared, found)]
    return pareto_front(filter(judge.answers, every))


def specs_that_answer(request: Request, prepared: Prepared) -> list[Candidate]:
    """Every spec and batch size that may be recommended, in no order, whatever `max_results`; of
    types without a GPU those that could be among the `max_results` best: there are thousands.
    """
    everything = replace(request, max_results=sys.maxsize)
    judge = Judge(everything)
    found = _found(judge, prepared, request.max_results)
    return list(filter(judge.answers, found.candidates))


def _complete(
    request: Request, prepared: Prepared, candidates: Iterable[Candidate]
) -> list[Candidate]:
    """Candidates with their runs, and with as many instances as they need."""
    timed = with_runs(request, prepared.catalog, prepared.model, candidates)
    return counted(request, timed)


def _told(request: Request, prepared: Prepared, shown: Sequence[Candidate]) -> list[Candidate]:
    """What is shown, with its latency and with what its disk lends for a while."""
    latencies: Sequence[Latency | None] = [one.latency for one in shown]
    if request.max_latency_ms is None:
        latencies = prepared.rows.latencies([(one.spec.offer, one.workload) for one in shown])
    return [
        replace(one, spec=replace(one.spec, disk=prepared.with_burst(one)), latency=latency)
        for one, latency in zip(shown, latencies, strict=True)
    ]


def _all_ranked(judge: Judge, ranked: Iterable[Candidate], found: _Found) -> Iterator[Candidate]:
    """What is shown and, told one by one, what is too dear for that, by rank."""
    dearer = (map(judge.best_of_each, looked.beyond) for looked in found.looked)
    return merge(ranked, *map(chain.from_iterable, dearer), key=judge.rank)


def _but_for_speed(request: Request, found: _Found) -> list[Candidate]:
    """Everything that would answer if its rate were enough."""
    if request.target_throughput is None:
        return []
    anyhow = replace(request, target_throughput=None)
    fewer = [less for one in found.slower for less in with_one_less(one)]
    return [one for one in fewer if answers(anyhow, one)]


def _soonest(request: Request, group: Sequence[Candidate]) -> list[Candidate]:
    """Those within the latency that is asked for; else those with the shortest."""
    soon = [one for one in group if soon_enough(request, one)]
    if soon:
        return soon
    seconds = [one.latency.p99_seconds for one in group if one.latency]
    return [one for one in group if one.latency and one.latency.p99_seconds == min(seconds)]


def _require_intervals(request: Request, candidates: Sequence[Candidate]) -> None:
    """Refuse where the only answers are predictions that nothing held out backs."""
    if request.allow_extrapolation:
        return
    guessing = replace(request, allow_extrapolation=True)
    if any(not one.prediction.calibrated and answers(guessing, one) for one in candidates):
        raise NoIntervalError(
            f"no interval of {request.network} {request.task} at {request.precision} is calibrated "
            f"to {100 * request.confidence:g} % (no calibrated interval): ask for less with "
            "--confidence, or accept a guess with --allow-extrapolation"
        )


def _nearest(request: Request, candidates: Sequence[Candidate]) -> Candidate | None:
    """What comes closest within the price: the cheapest of those within 5 % of the fastest."""
    sure = [as_many_as_affordable(request, one) for one in candidates if has_interval(request, one)]
    within = [one for one in sure if affordable(request, one)]
    if not within:
        return min(sure, key=lambda one: one.spec.total_usd_per_hour, default=None)
    free = replace(request, max_run_usd=None)
    but_for_cost = [one for one in within if answers(free, one)]
    if but_for_cost:
        return min(but_for_cost, key=lambda o: o.usd_per_run.upper if o.usd_per_run else math.inf)
    soonest = _soonest(request, within)
    limit = GOOD_ENOUGH * max(map(sure_rate, soonest))
    fastest = [one for one in soonest if sure_rate(one) >= limit]
    return min(fastest, key=lambda o: (o.spec.total_usd_per_hour, -sure_rate(o)))


def _beyond_price(request: Request, candidates: Sequence[Candidate]) -> Candidate | None:
    """The cheapest that would answer if only its price were allowed."""
    free = replace(request, max_usd_per_hour=None)
    fast = [one for one in candidates if answers(free, one)]
    return min(fast, key=lambda one: one.spec.total_usd_per_hour, default=None)


def _cheapest_first(rejected: Iterable[Rejected]) -> list[Rejected]:
    """By price, then by name; those without a price last."""
    listed = list(rejected)
    priced = [one for one in listed if one[3] is not None]
    priced.sort(key=_PRICE_AND_NAME)
    others = [one for one in listed if one[3] is None]
    others.sort(key=attrgetter("instance_type"))
    return priced + others


# Read from the tuple itself: an answer has more than a thousand of them.
_PRICE_AND_NAME = itemgetter(3, 0)
