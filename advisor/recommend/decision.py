"""Workload + offers + performance model + target -> Recommendation. Pure: no clock, no files.

The answer is the cheapest spec (instance plus disk) whose lower bound meets the target;
without a target, the one with the lowest cost per sample. Every type that is passed over
keeps its reason.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from heapq import merge
from typing import NamedTuple

from advisor.catalog import Catalog
from advisor.domain import Candidate, Recommendation, Rejected, Request
from advisor.errors import NoIntervalError
from advisor.recommend.candidates import PerformanceModel, Runnable
from advisor.recommend.close_calls import close_calls
from advisor.recommend.counting import (
    as_many_as_affordable,
    counted,
    require_countable,
    with_one_less,
)
from advisor.recommend.cpu_only import CpuOnlySearch
from advisor.recommend.disk_fitting import with_fitted_disks
from advisor.recommend.field import Judged, passed_over
from advisor.recommend.judging import GOOD_ENOUGH, Judge
from advisor.recommend.pareto import pareto_front, wants_front
from advisor.recommend.predicting import predicted, with_latencies
from advisor.recommend.prepared import Prepared, options_of
from advisor.recommend.reasons import affordable, answers, has_interval
from advisor.recommend.runs import sure_rate, with_runs
from advisor.recommend.wording import chosen_assumptions, soon_enough, warnings
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
    judge = Judge(request)
    found = _found(judge, prepared, request.max_results)
    ranked = sorted(filter(judge.answers, found.best), key=judge.rank)
    if not ranked:
        _require_intervals(request, found.candidates)
    nearest = None if ranked else _nearest(request, found.candidates)
    shown = ranked[: request.max_results] if nearest is None else [nearest]
    told = _told(request, prepared, shown)
    ranked[: request.max_results] = told if ranked else []
    turned_down = [passed_over(request, one) for one in found.best if not judge.answers(one)]
    rejected = [*found.rejected, *turned_down, *prepared.unpriced]
    return Recommendation(
        request=request,
        ranked=tuple(ranked[: request.max_results]),
        nearest=None if nearest is None else told[0],
        beyond_price=None if ranked else _beyond_price(request, found.candidates),
        rejected=tuple(sorted(rejected, key=_cheapest_first)),
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
    """Types that are turned down whatever their disk; candidates with coarse disks, of which
    `slower` may answer but for their speed, and `more` candidates; the best one of each type that
    may be shown; how many offers were looked at, the Pareto front, where that is wanted, and the
    candidates of each type that is too dear to be shown, cheapest first."""

    rejected: list[Rejected]
    coarse: Sequence[Candidate]
    slower: Sequence[Candidate]
    more: list[Candidate]
    best: list[Candidate]
    considered: int
    front: tuple[Candidate, ...]
    beyond: Iterable[Sequence[Candidate]]

    @property
    def candidates(self) -> list[Candidate]:
        """All of them."""
        return [*self.coarse, *self.more]


def _found(judge: Judge, prepared: Prepared, shown: int) -> _Found:
    """What accelerated types (for preprocessing: all) do, and of the others what may count."""
    request, field = judge.request, prepared.field
    near = field.shortlist(request)
    coarse = _complete(request, prepared, near.candidates)
    fitted = _fitted(judge, prepared, near.options, coarse)
    best = judge.best_of_each([*coarse, *fitted])
    search = CpuOnlySearch(
        judge, shown, prepared,
        fit=lambda some, few, limit: _with_fitted(judge, prepared, some, few, limit),
        front_of=lambda some, all_: _front(judge, prepared, some, all_),
    )  # fmt: skip
    on_cpu = search.beside(best, _front(judge, prepared, prepared.judged, [*coarse, *fitted]))
    whole = near.candidates is field.candidates
    return _Found(
        rejected=_not_runnable([*prepared.judged, *on_cpu.judged])
        + near.rejected
        + on_cpu.rejected,
        coarse=coarse if whole else field.candidates,
        slower=coarse if whole else near.slower,
        more=[*fitted, *on_cpu.candidates],
        best=[*best, *on_cpu.best],
        considered=len(prepared.judged) + on_cpu.considered,
        front=on_cpu.front,
        beyond=near.beyond,
    )


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


def _with_fitted(
    judge: Judge,
    prepared: Prepared,
    judged: Sequence[Judged],
    candidates: Sequence[Candidate],
    last_shown: float,
) -> list[Candidate]:
    coarse = _complete(judge.request, prepared, candidates)
    return coarse + _fitted(judge, prepared, options_of(judged), coarse, last_shown)


def _fitted(
    judge: Judge,
    prepared: Prepared,
    options: Sequence[Runnable],
    coarse: Sequence[Candidate],
    last_shown: float = math.inf,
) -> list[Candidate]:
    """The options with the cheapest disk that does each that may rank before the last that is
    shown."""
    request = judge.request
    return with_fitted_disks(
        request, prepared.catalog, prepared.rows, options, coarse,
        answers=answers, rank=judge.rank, last_shown=last_shown,
        complete=lambda found: _complete(request, prepared, found),
    )  # fmt: skip


def _told(request: Request, prepared: Prepared, shown: Sequence[Candidate]) -> list[Candidate]:
    """What is shown, with its latency and with what its disk lends for a while."""
    bursting = [_with_burst(prepared.catalog, one) for one in shown]
    if request.max_latency_ms is not None:
        return bursting
    return with_latencies(prepared.rows, bursting)


def _all_ranked(judge: Judge, ranked: Iterable[Candidate], found: _Found) -> Iterator[Candidate]:
    """What is shown and, told one by one, what is too dear for that, by rank."""
    dearer = (one for group in found.beyond for one in judge.best_of_each(group))
    return merge(ranked, dearer, key=judge.rank)


def _but_for_speed(request: Request, found: _Found) -> list[Candidate]:
    """Everything that would answer if its rate were enough."""
    if request.target_throughput is None:
        return []
    anyhow = replace(request, target_throughput=None)
    fewer = [less for one in (*found.slower, *found.more) for less in with_one_less(one)]
    return [one for one in fewer if answers(anyhow, one)]


def _with_burst(catalog: Catalog, one: Candidate) -> Candidate:
    instance = one.spec.offer.instance
    disk = catalog.disks_of(instance.cloud).with_burst(instance, one.spec.disk)
    return replace(one, spec=replace(one.spec, disk=disk))


def _not_runnable(judged: Iterable[Judged]) -> list[Rejected]:
    """One reason for each type that runs in none of its regions: that of its cheapest one."""
    found: dict[tuple[str, str], Runnable | Rejected] = {}
    for offer, verdict in judged:
        key = offer.instance.cloud, offer.instance.name
        if isinstance(verdict, Runnable) or key not in found:
            found[key] = verdict
    return [one for one in found.values() if isinstance(one, Rejected)]


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


def _cheapest_first(one: Rejected) -> tuple[bool, float, str]:
    return one.usd_per_hour is None, one.usd_per_hour or 0.0, one.instance_type
