"""Workload + offers + performance model + target -> Recommendation. Pure: no clock, no files.

The answer is the cheapest spec (instance plus disk) whose lower bound meets the target;
without a target, the one with the lowest cost per sample. Every type that is passed over
keeps its reason.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date

from advisor.catalog import Catalog, OfferQuery, resources_of
from advisor.domain import Candidate, Prediction, Recommendation, Rejected, Request, Task
from advisor.errors import NoIntervalError
from advisor.recommend.candidates import (
    PerformanceModel,
    Runnable,
    predicted,
    runnable,
    with_latencies,
)
from advisor.recommend.close_calls import close_calls
from advisor.recommend.cpu_only import cpu_only_found
from advisor.recommend.disk_fitting import with_fitted_disks
from advisor.recommend.runs import in_time, sure_rate, with_runs, within_cost
from advisor.recommend.wording import assumptions, shortfall, soon_enough, warnings

# The smallest batch within 5 % of the best lower bound: latency and memory are dear.
GOOD_ENOUGH = 0.95


def recommend(
    request: Request, catalog: Catalog, model: PerformanceModel, *, today: date
) -> Recommendation:
    """Answer one request.

    Raises `UsageError` for what the catalogue or the model does not know, and
    `NoIntervalError` where only predictions without a calibrated interval would answer.
    """
    query = query_of(request)
    offers = catalog.offers(query) if request.region else catalog.cheapest_of_each(query)
    judged = list(runnable(request, catalog, model, offers))
    options = [one for one in judged if isinstance(one, Runnable)]
    candidates = _candidates(request, catalog, model, options)
    on_cpu = cpu_only_found(
        request, catalog, model, _costs(request, candidates),
        lambda some: _candidates(request, catalog, model, some),
        lambda some: _costs(request, some),
    )  # fmt: skip
    judged += on_cpu.judged
    candidates += on_cpu.candidates
    best = [_best(request, group) for group in _by_instance_type(candidates)]
    ranked = sorted((one for one in best if answers(request, one)), key=_rank(request))
    _require_intervals(request, best, ranked)
    nearest = None if ranked else _nearest(request, candidates)
    shown = ranked[: request.max_results] if nearest is None else [nearest]
    told = _told(request, catalog, model, shown)
    ranked[: request.max_results] = told if ranked else []
    passed_over = [_passed_over(request, one) for one in best if not answers(request, one)]
    rejected = [one for one in judged if isinstance(one, Rejected)] + passed_over
    rejected += catalog.unpriced(query)
    return Recommendation(
        request=request,
        ranked=tuple(ranked[: request.max_results]),
        nearest=None if nearest is None else told[0],
        beyond_price=None if ranked else _beyond_price(request, candidates),
        rejected=tuple(sorted(rejected, key=_cheapest_first)),
        offers_considered=len(offers) + on_cpu.considered,
        assumptions=assumptions(request, ranked[0] if ranked else None),
        warnings=warnings(ranked[0] if ranked else None, today),
        today=today,
        close_calls=close_calls(
            request, _but_for_speed(request, candidates), ranked, _at_confidence(catalog, model)
        ),
    )


def _candidates(
    request: Request, catalog: Catalog, model: PerformanceModel, options: Sequence[Runnable]
) -> list[Candidate]:
    """Every spec and batch of the options, and each with the cheapest disk that does."""

    def with_times(found: Iterable[Candidate]) -> list[Candidate]:
        return with_runs(request, catalog, model, found)

    # Nobody asks how soon the hundreds answer that are not shown, unless that is a limit.
    limited = request.max_latency_ms is not None
    found = predicted(catalog, model, options, request.confidence, with_latency=limited)
    coarse = with_times(found)
    return coarse + with_fitted_disks(
        request, catalog, model, options, coarse,
        answers=answers, rank=_rank(request), complete=with_times,
    )  # fmt: skip


def _costs(request: Request, candidates: Sequence[Candidate]) -> list[float]:
    """What each type that answers ranks by."""
    best = [_best(request, group) for group in _by_instance_type(candidates)]
    return [_cost(request, one) for one in best if answers(request, one)]


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
    return [one for one in candidates if answers(anyhow, one)]


def _at_confidence(
    catalog: Catalog, model: PerformanceModel
) -> Callable[[Sequence[Candidate], float], list[Prediction]]:
    def predict_at(candidates: Sequence[Candidate], confidence: float) -> list[Prediction]:
        pairs = [
            (one.workload, resources_of(catalog, one.spec.offer, one.spec.disk))
            for one in candidates
        ]
        return model.predict(pairs, confidence=confidence)

    return predict_at


def _with_burst(catalog: Catalog, one: Candidate) -> Candidate:
    instance = one.spec.offer.instance
    disk = catalog.disks_of(instance.cloud).with_burst(instance, one.spec.disk)
    return replace(one, spec=replace(one.spec, disk=disk))


def query_of(request: Request) -> OfferQuery:
    """What the catalogue is asked for first: types with an accelerator where it may compute the
    task; `cpu_only` looks at the others."""
    return OfferQuery(
        cloud=request.cloud,
        region=request.region,
        market=request.market,
        gpus=request.gpus,
        min_gpu_memory_mib=request.min_gpu_memory_mib,
        accelerated=True if request.task is not Task.PREPROCESSING else None,
    )


def answers(request: Request, candidate: Candidate) -> bool:
    """Whether a candidate may be recommended: sure enough, fast enough, within the price."""
    if not (candidate.prediction.calibrated or request.allow_extrapolation):
        return False
    return (
        _affordable(request, candidate)
        and _fast_enough(request, candidate)
        and soon_enough(request, candidate)
        and in_time(request, candidate)
        and within_cost(request, candidate)
    )


def _affordable(request: Request, candidate: Candidate) -> bool:
    limit = request.max_usd_per_hour
    return limit is None or candidate.spec.total_usd_per_hour <= limit


def _fast_enough(request: Request, candidate: Candidate) -> bool:
    target = request.target_throughput
    return target is None or candidate.prediction.lower >= target


def _by_instance_type(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    groups: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        instance = candidate.spec.offer.instance
        groups[instance.cloud, instance.name].append(candidate)
    return list(groups.values())


def _best(request: Request, group: list[Candidate]) -> Candidate:
    """The spec and batch size with which an instance type enters the ranking."""
    good = [one for one in group if answers(request, one)]
    if not good:
        soon = _soonest(request, group)
        return max(soon, key=lambda one: (sure_rate(one), -one.spec.total_usd_per_hour))
    chosen = min(good, key=_rank(request))
    if request.target_throughput is None:
        return chosen  # ranked by what its samples cost, at the batch that makes them cheapest
    return with_good_batch([one for one in good if one.spec == chosen.spec])


def _soonest(request: Request, group: Sequence[Candidate]) -> list[Candidate]:
    """Those within the latency that is asked for; else those with the shortest."""
    soon = [one for one in group if soon_enough(request, one)]
    if soon:
        return soon
    seconds = [one.latency.p99_seconds for one in group if one.latency]
    return [one for one in group if one.latency and one.latency.p99_seconds == min(seconds)]


def with_good_batch(same_spec: Sequence[Candidate]) -> Candidate:
    """Of one spec at several batch sizes: the smallest within 5 % of the best lower bound."""
    limit = GOOD_ENOUGH * max(one.prediction.lower for one in same_spec)
    near = [one for one in same_spec if one.prediction.lower >= limit]
    return min(near, key=lambda one: one.workload.batch_size)


def _rank(request: Request) -> Callable[[Candidate], tuple[float, float, str]]:
    """Sort key: total price for a target, else cost per run or per sample; ties by rate, name."""

    def key(one: Candidate) -> tuple[float, float, str]:
        return _cost(request, one), -one.prediction.lower, one.spec.offer.instance.name

    return key


def _cost(request: Request, one: Candidate) -> float:
    if request.target_throughput is not None:
        return one.spec.total_usd_per_hour
    return one.usd_per_run.median if one.usd_per_run else one.usd_per_million_samples


def _require_intervals(request: Request, best: list[Candidate], ranked: list[Candidate]) -> None:
    """Refuse where the only answers are predictions that nothing held out backs."""
    if ranked or request.allow_extrapolation:
        return
    if any(
        not one.prediction.calibrated and answers(replace(request, allow_extrapolation=True), one)
        for one in best
    ):
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
    sure = [one for one in candidates if one.prediction.calibrated or request.allow_extrapolation]
    within = [one for one in sure if _affordable(request, one)]
    if not within:
        return min(sure, key=lambda one: one.spec.total_usd_per_hour, default=None)
    but_for_cost = [one for one in within if answers(replace(request, max_run_usd=None), one)]
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
