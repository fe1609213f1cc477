"""Which measurements are weak, why, and what to do about it; pure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.domain.steps import stall_indices, typical_step_seconds
from sweeps.quality.machine_quality import QualityIssue, machine_issues
from sweeps.quality.statistics import CONFIDENCE, Interval, step_interval
from sweeps.quality.timing import is_steady

WIDE = 0.05
FEW_STEPS = 6
_BARELY = 1.25
MANY_OUTLIERS = 0.05
SLOWED = 0.05
REPEATS_DIFFER = 0.06
_AGAIN = "measure again on a quiet machine: advisor sweep run ... --retry-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A measurement with its statistics (None: too few steps) and its issues."""

    measurement: Measurement
    relative_error: float | None
    outlier_share: float
    issues: tuple[QualityIssue, ...]


def check(measurement: Measurement) -> Checked:
    """Everything that is weak in one measurement."""
    steps, period = measurement.step_seconds, measurement.trial.loader_period
    interval = step_interval(steps, period) if steps else None
    outliers = outlier_share(steps, period) if steps else 0.0
    result = [_not_ok(measurement), _not_limited(measurement)]
    if measurement.status is Status.OK:
        tests: Iterable[Callable[[], QualityIssue | None]] = (
            lambda: _few(steps, interval),
            lambda: _wide(measurement, interval),
            lambda: _drifting(steps, period),
            lambda: _slowed(steps, period),
            lambda: _outliers(steps, period),
            lambda: _apart(measurement),
        )
        result += [test() for test in tests]
        kinds = {entry.kind for entry in result if entry}
        doubts = machine_issues(measurement.environment)
        result += [doubt for doubt in doubts if doubt.kind not in kinds]
    return Checked(
        measurement=measurement,
        relative_error=interval.relative_error if interval else None,
        outlier_share=outliers,
        issues=tuple(entry for entry in result if entry),
    )


def outlier_share(steps: Sequence[float], period: int = 1) -> float:
    """Part of the steps that are isolated stalls."""
    return len(stall_indices(steps, period)) / len(steps)


def _not_ok(measurement: Measurement) -> QualityIssue | None:
    if measurement.status in (Status.OK, Status.OUT_OF_MEMORY):
        return None
    status = measurement.status.value.replace("_", " ")
    return QualityIssue(
        kind=measurement.status.value, detail=measurement.reason or status, advice=_AGAIN
    )


def _not_limited(measurement: Measurement) -> QualityIssue | None:
    if measurement.limited_by is not LimitedBy.NONE or measurement.status is Status.FAILED:
        return None
    return QualityIssue(
        kind="not limited",
        detail="a limit was asked for and not held; it is never fitted",
        advice="run as root, or with delegated cgroups (advisor doctor), data on a block device",
    )


def _few(steps: Sequence[float], interval: Interval | None) -> QualityIssue | None:
    if len(steps) >= FEW_STEPS and interval is not None:
        return None
    return QualityIssue(
        kind="few steps",
        detail=f"{len(steps)} steady steps, too few for an interval of the rate",
        advice="ask for smaller --batch-sizes, or for more with --iterations",
    )


def _wide(measurement: Measurement, interval: Interval | None) -> QualityIssue | None:
    wanted = float(measurement.trial.plan.get("rel_error", WIDE))
    if interval is None or interval.relative_error <= _BARELY * wanted:
        return None
    return QualityIssue(
        kind="wide interval",
        detail=f"known to {100 * interval.relative_error:.1f} %, asked for {100 * wanted:.3g} %",
        advice="measure it longer: --iterations 1000, or --repeats 3",
    )


def _drifting(steps: Sequence[float], period: int) -> QualityIssue | None:
    if len(steps) < FEW_STEPS or is_steady(steps, period):
        return None
    return QualityIssue(
        kind="drift",
        detail="the level of the step times still changed at the end",
        advice="measure it longer: --iterations 1000; look for other load on the machine",
    )


def _slowed(steps: Sequence[float], period: int) -> QualityIssue | None:
    """The last third against the first: clocks that fell, credits of a burst that were spent."""
    third = len(steps) // 3
    if third < FEW_STEPS:
        return None
    first = typical_step_seconds(steps[:third], period)
    ratio = typical_step_seconds(steps[-third:], period) / first - 1
    if ratio <= SLOWED:
        return None
    return QualityIssue(
        kind="throttled or burst",
        detail=f"steps at the end took {100 * ratio:.0f} % longer than at the start",
        advice="let the machine cool, or burst credits run out first; then --iterations 1000",
    )


def _outliers(steps: Sequence[float], period: int) -> QualityIssue | None:
    share = outlier_share(steps, period) if steps else 0.0
    if share <= MANY_OUTLIERS:
        return None
    return QualityIssue(
        kind="outliers",
        detail=f"{100 * share:.0f} % of the steps are stalls (kept, and not in the rate)",
        advice="look for other load, or a disk that stalls; then measure again",
    )


def _apart(measurement: Measurement) -> QualityIssue | None:
    runs = [measurement.step_seconds, *(repeat["step_seconds"] for repeat in measurement.repeats)]
    period = measurement.trial.loader_period
    seconds = [typical_step_seconds(run, period) for run in runs if run]
    if len(seconds) < 2 or (spread := max(seconds) / min(seconds) - 1) <= REPEATS_DIFFER:
        return None
    return QualityIssue(
        kind="repeats differ",
        detail=f"its {len(seconds)} runs differ by {100 * spread:.0f} %",
        advice="measure again on a quiet machine, with --repeats 3 or more",
    )


def as_document(checked: Checked) -> Mapping[str, Any]:
    """JSON of one checked measurement, numbers unrounded."""
    row = checked.measurement
    return {
        "trial_id": row.trial.trial_id,
        "network": row.trial.workload.network,
        "task": row.trial.workload.task.value,
        "status": row.status.value,
        "throughput_samples_per_second": row.throughput_samples_per_second,
        "steps": len(row.step_seconds),
        "runs": 1 + len(row.repeats),
        "relative_error": checked.relative_error,
        "outlier_share": checked.outlier_share,
        "weak": [
            {"kind": issue.kind, "detail": issue.detail, "advice": issue.advice}
            for issue in checked.issues
        ],
    }


_PERCENTILES = (5, 25, 50, 75, 95)


def spread_document(measurement: Measurement) -> Mapping[str, Any] | None:
    """Samples per second of each run with its 95 % interval (null: too few steps), and
    percentiles of the rates of single steps, stalls included. None where no step was measured."""
    trial = measurement.trial
    runs = [measurement.step_seconds, *(repeat["step_seconds"] for repeat in measurement.repeats)]
    runs = [run for run in runs if run]
    if not runs:
        return None
    return {
        "confidence": CONFIDENCE,
        "runs": [_run_document(trial, run) for run in runs],
        "step_rates": _percentiles(trial, [step for run in runs for step in run]),
        "outlier_share": outlier_share(runs[0], trial.loader_period),
    }


def _run_document(trial: Trial, steps: Sequence[float]) -> Mapping[str, Any]:
    interval, samples = step_interval(steps, trial.loader_period), trial.samples_per_step
    return {
        "steps": len(steps),
        "throughput_samples_per_second": samples / typical_step_seconds(steps, trial.loader_period),
        "lower": samples / interval.upper if interval else None,
        "upper": samples / interval.lower if interval else None,
        "relative_error": interval.relative_error if interval else None,
    }


def _percentiles(trial: Trial, steps: Sequence[float]) -> Mapping[str, float]:
    import numpy as np

    # Of the times, since a step may be too short for its rate to be a number.
    result = np.percentile(steps, [100 - name for name in _PERCENTILES]).tolist()
    rates = [min(trial.samples_per_step / seconds, sys.float_info.max) for seconds in result]
    return {f"p{name}": value for name, value in zip(_PERCENTILES, rates, strict=True)}
