"""Hours and dollars of a whole run, and the limits that may be set to them.

A run's time is samples over rate, so that its longest time follows from the lower bound of the
rate. Training reads its data from the disk in the first epoch, and from the page cache, as far
as RAM holds it, in later ones: the model is asked for both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from advisor.catalog import Catalog
from advisor.domain import (
    CacheState,
    Candidate,
    Prediction,
    Request,
    Resources,
    RunTime,
    Span,
    Task,
    Workload,
)
from advisor.engine.candidates import PerformanceModel, candidate_resources
from advisor.records import replace
from advisor.units import ceil_significant, format_counted, format_hours, format_usd

Pair = tuple[Workload, Resources]


def with_runs(
    request: Request, catalog: Catalog, model: PerformanceModel, candidates: Iterable[Candidate]
) -> list[Candidate]:
    """The candidates with their run's time where the request says how long a run is."""
    listed = list(candidates)
    if request.run_samples is None:
        return listed
    pairs = [(one.workload, candidate_resources(catalog, one)) for one in listed]
    times = run_times(request, model, pairs, [one.prediction for one in listed])
    return [replace(one, run=time) for one, time in zip(listed, times, strict=True)]


def run_times(
    request: Request,
    model: PerformanceModel,
    pairs: Sequence[Pair],
    predictions: Sequence[Prediction],
) -> list[RunTime | None]:
    """The run's time for each pair, given its prediction; None where no run was asked for."""
    samples = request.run_samples
    if samples is None:
        return [None] * len(pairs)
    if request.task is not Task.TRAINING:
        return [RunTime(samples=samples, hours=_hours(samples, one)) for one in predictions]
    cold = model.predict(pairs, confidence=request.confidence, cache=CacheState.COLD)
    first = min(samples, request.dataset.samples)
    return [
        _training_time(samples, first, slow, one)
        for slow, one in zip(cold, predictions, strict=True)
    ]


def _training_time(samples: float, first: float, cold: Prediction, warm: Prediction) -> RunTime:
    first_epoch = _hours(first, cold)
    later = _hours(samples - first, warm) if samples > first else None
    hours = first_epoch + later if later else first_epoch
    return RunTime(samples=samples, hours=hours, first_epoch=first_epoch)


def _hours(samples: float, prediction: Prediction) -> Span:
    def at(rate: float) -> float:
        return samples / rate / 3600 if rate > 0 else math.inf

    return Span(
        lower=at(prediction.upper), median=at(prediction.median), upper=at(prediction.lower)
    )


def sure_rate(candidate: Candidate) -> float:
    """Samples per second that are surely kept: over the whole run, where there is one."""
    return candidate.run.sure_rate if candidate.run else candidate.prediction.lower


def in_time(request: Request, candidate: Candidate) -> bool:
    """Whether the run surely ends within `max_hours`."""
    limit, run = request.max_hours, candidate.run
    return limit is None or (run is not None and run.hours.upper <= limit)


def within_cost(request: Request, candidate: Candidate) -> bool:
    """Whether the run surely costs no more than `max_run_usd`."""
    limit, usd = request.max_run_usd, candidate.usd_per_run
    return limit is None or (usd is not None and usd.upper <= limit)


def run_shortfall(request: Request, candidate: Candidate) -> tuple[str, str] | None:
    """Reason and detail of a run that takes too long or costs too much."""
    run, usd = candidate.run, candidate.usd_per_run
    if run and request.max_hours is not None and not in_time(request, candidate):
        longest, likely = format_hours(run.hours.upper, up=True), format_hours(run.hours.median)
        asked = format_hours(request.max_hours)
        return (
            "too_long",
            f"its run may take {longest}, more than {asked}; {likely} likely",
        )
    if usd and request.max_run_usd is not None and not within_cost(request, candidate):
        most, likely = format_usd(ceil_significant(usd.upper)), format_usd(usd.median)
        asked = format_usd(request.max_run_usd)
        return "over_max_cost", f"its run may cost {most}, more than {asked}; {likely} likely"
    return None


def run_relaxations(request: Request, nearest: Candidate) -> list[str]:
    """The limits of the run to relax so that `nearest` keeps them."""
    run, usd = nearest.run, nearest.usd_per_run
    found = []
    if run and not in_time(request, nearest):
        found.append(f"--max-hours to {ceil_significant(run.hours.upper):g} or more")
    if usd and not within_cost(request, nearest):
        found.append(f"--max-cost to {ceil_significant(usd.upper):g} or more")
    return found


def run_assumptions(request: Request) -> list[str]:
    """What the time and the cost of a run take for granted."""
    samples = request.run_samples
    if samples is None:
        return []
    length = format_counted(samples, "sample")
    if request.epochs is not None:
        length = f"{format_counted(request.epochs, 'epoch')} ({length})"
    said = [f"a run of {length}"]
    if request.task is Task.TRAINING:
        said.append("its first epoch reads from the disk, later ones what RAM does not cache")
    return [*said, "start-up, validation and checkpoints not counted"]
