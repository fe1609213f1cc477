"""How far a rate spreads: over the steps of a run, and over the runs of a trial; pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain import Measurement, Trial
from advisor.domain.steps import typical_step_seconds
from sweeps.quality.checking import outlier_share
from sweeps.quality.statistics import CONFIDENCE, step_interval

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
