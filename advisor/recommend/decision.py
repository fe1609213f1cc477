"""Workload + offers + performance model + target -> Recommendation. Pure: no clock, no files.

The answer is the cheapest spec (instance plus disk) whose lower bound meets the target;
without a target, the one with the lowest cost per sample. Every type that is passed over
keeps its reason.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import NamedTuple

from advisor.catalog import Catalog
from advisor.domain import Candidate, Prediction, Recommendation, Rejected, Request
from advisor.errors import NoIntervalError
from advisor.recommend.candidates import (
    PerformanceModel,
    Runnable,
    candidate_resources,
    predicted,
    runnable,
    with_latencies,
)
from advisor.recommend.close_calls import close_calls
from advisor.recommend.counting import (
    as_many_as_affordable,
    counted,
    require_countable,
    with_one_less,
)
from advisor.recommend.cpu_only import CpuOnlySearch, Judged, options_of
from advisor.recommend.disk_fitting import with_fitted_disks
from advisor.recommend.judging import GOOD_ENOUGH, Judge
from advisor.recommend.pareto import pareto_front, wants_front
from advisor.recommend.querying import offers_of, query_of
from advisor.recommend.reasons import affordable, answers, has_interval
from advisor.recommend.runs import sure_rate, with_runs
from advisor.recommend.wording import chosen_assumptions, shortfall, soon_enough, warnings
from advisor.records import replace


def recommend(
    request: Request, catalog: Catalog, model: PerformanceModel, *, today: date
) -> Recommendation:
    """Answer one request.

    Raises `UsageError` for what the catalogue or the model does not know, and
    `NoIntervalError` where only predictions without a calibrated interval would answer.
    """
    require_countable(request)
    judge = Judge(request)
    found = _found(judge, catalog, model, request.max_results)
    candidates = found.candidates
    ranked = sorted(filter(judge.answers, found.best), key=judge.rank)
    _require_intervals(request, candidates, ranked)
    nearest = None if ranked else _nearest(request, candidates)
    shown = ranked[: request.max_results] if nearest is None else [nearest]
    told = _told(request, catalog, model, shown)
    ranked[: request.max_results] = told if ranked else []
    passed_over = [_passed_over(request, one) for one in found.best if not judge.answers(one)]
    rejected = found.rejected + passed_over
    rejected += catalog.unpriced(query_of(request))
    return Recommendation(
        request=request,
        ranked=tuple(ranked[: request.max_results]),
        nearest=None if nearest is None else told[0],
        beyond_price=None if ranked else _beyond_price(request, candidates),
        rejected=tuple(sorted(rejected, key=_cheapest_first)),
        offers_considered=found.considered,
        assumptions=chosen_assumptions(request, ranked[0] if ranked else None),
        warnings=warnings(ranked[0] if ranked else None, today),
        today=today,
        close_calls=close_calls(
            request, _but_for_speed(request, candidates), ranked, _at_confidence(catalog, model)
        ),
        pareto=found.front,
    )


class _Found(NamedTuple):
    """Types that run nowhere, all candidates and the best one of each type, how many offers were
    looked at, and the Pareto front, where that is wanted."""

    rejected: list[Rejected]
    candidates: list[Candidate]
    best: list[Candidate]
    considered: int
    front: tuple[Candidate, ...]


def _found(judge: Judge, catalog: Catalog, model: PerformanceModel, shown: int) -> _Found:
    """What accelerated types (for preprocessing: all) do, and of the others what may count."""
    request = judge.request
    offers = offers_of(request, catalog)
    judged = list(zip(offers, runnable(request, catalog, model, offers), strict=True))
    candidates = _candidates(judge, catalog, model, options_of(judged))
    best = judge.best_of_each(candidates)
    search = CpuOnlySearch(
        judge, shown, catalog, model,
        predict=lambda some, limit: _candidates(judge, catalog, model, options_of(some), limit),
        front_of=lambda some, all_: _front(judge, catalog, model, some, all_),
    )  # fmt: skip
    on_cpu = search.beside(best, _front(judge, catalog, model, judged, candidates))
    return _Found(
        rejected=_not_runnable([*judged, *on_cpu.judged]) + on_cpu.rejected,
        candidates=[*candidates, *on_cpu.candidates],
        best=[*best, *on_cpu.best],
        considered=len(offers) + on_cpu.considered,
        front=on_cpu.front,
    )


def _front(
    judge: Judge,
    catalog: Catalog,
    model: PerformanceModel,
    judged: Sequence[Judged],
    candidates: Sequence[Candidate],
) -> tuple[Candidate, ...]:
    """The Pareto front, where it is wanted: hard disks, too, which the ranking seldom needs."""
    request = judge.request
    if not wants_front(request):
        return ()
    slow = [replace(one, disks=one.slow_disks) for one in options_of(judged) if one.slow_disks]
    limited = request.max_latency_ms is not None
    found = (
        predicted(catalog, model, slow, request.confidence, with_latency=limited) if slow else ()
    )
    every = [*candidates, *counted(request, with_runs(request, catalog, model, found))]
    return pareto_front(filter(judge.answers, every))


def specs_that_answer(
    request: Request, catalog: Catalog, model: PerformanceModel
) -> list[Candidate]:
    """Every spec and batch size that may be recommended, in no order, whatever `max_results`; of
    types without a GPU those that could be among the `max_results` best: there are thousands.
    """
    everything = replace(request, max_results=sys.maxsize)
    judge = Judge(everything)
    found = _found(judge, catalog, model, request.max_results)
    return list(filter(judge.answers, found.candidates))


def _candidates(
    judge: Judge,
    catalog: Catalog,
    model: PerformanceModel,
    options: Sequence[Runnable],
    last_shown: float = math.inf,
) -> list[Candidate]:
    """Every spec and batch of the options, and with the cheapest disk that does each that may rank
    before the last that is shown."""
    request = judge.request

    def with_times(found: Iterable[Candidate]) -> list[Candidate]:
        return counted(request, with_runs(request, catalog, model, found))

    # Nobody asks how soon the hundreds answer that are not shown, unless that is a limit.
    limited = request.max_latency_ms is not None
    found = predicted(catalog, model, options, request.confidence, with_latency=limited)
    coarse = with_times(found)
    return coarse + with_fitted_disks(
        request, catalog, model, options, coarse,
        answers=answers, rank=judge.rank, complete=with_times, last_shown=last_shown,
    )  # fmt: skip


def _told(
    request: Request, catalog: Catalog, model: PerformanceModel, shown: Sequence[Candidate]
) -> list[Candidate]:
    """What is shown, with its latency and with what its disk lends for a while."""
    bursting = [_with_burst(catalog, one) for one in shown]
    if request.max_latency_ms is not None:
        return bursting
    return with_latencies(catalog, model, bursting, request.confidence)


def _but_for_speed(request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Everything that would answer if its rate were enough."""
    anyhow = replace(request, target_throughput=None)
    fewer = [less for one in candidates for less in with_one_less(one)]
    return [one for one in fewer if answers(anyhow, one)]


def _at_confidence(
    catalog: Catalog, model: PerformanceModel
) -> Callable[[Sequence[Candidate], float], list[Prediction]]:
    def predict_at(candidates: Sequence[Candidate], confidence: float) -> list[Prediction]:
        pairs = [(one.workload, candidate_resources(catalog, one)) for one in candidates]
        found = model.predict(pairs, confidence=confidence)
        return [one.times(c.spec.count) for c, one in zip(candidates, found, strict=True)]

    return predict_at


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


def _require_intervals(
    request: Request, candidates: Sequence[Candidate], ranked: Sequence[Candidate]
) -> None:
    """Refuse where the only answers are predictions that nothing held out backs."""
    if ranked or request.allow_extrapolation:
        return
    guessing = replace(request, allow_extrapolation=True)
    if any(not one.prediction.calibrated and answers(guessing, one) for one in candidates):
        raise NoIntervalError(
            f"no interval of {request.network} {request.task} at {request.precision} is calibrated "
            f"to {100 * request.confidence:g} % (no calibrated interval): ask for less with "
            "--confidence, or accept a guess with --allow-extrapolation"
        )


def _passed_over(request: Request, candidate: Candidate) -> Rejected:
    reason, detail = shortfall(request, candidate)
    return Rejected(
        instance_type=candidate.spec.offer.instance.name,
        reason=reason,
        detail=detail,
        usd_per_hour=candidate.spec.total_usd_per_hour,
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
