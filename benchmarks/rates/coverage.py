"""How often the 95 % interval of a trial's runs holds the rate of another run of it, by the spread between
runs that ships; and the spread that the runs show.

The model is that of `advisor.sweeps.quality.rates`: the variance of a trial's runs is a scaled inverse
chi-square around sigma² + the error within. The variance that n runs show is then sigma² + within times F of
n - 1 and `degrees` degrees of freedom (Smyth 2004, SAGMB 3:3), so a trial whose runs are closer than their
error within counts for what it is."""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from scipy.stats import f as f_distribution

from advisor.domain import Measurement, Status, Task
from advisor.sweeps.formats import measurement_from_dict, measurement_to_dict
from advisor.sweeps.quality.rates import BETWEEN_RUNS, RunSpread, mean_error, rate_interval
from benchmarks.rates.trials import Cell, emulated_trials, one_run

_INFERENCE, _TRAINING = Task.INFERENCE, Task.TRAINING
# Bound by a loader below one vCPU, at one, above it; then by the emulated GPU, or close to it.
CELLS = (
    Cell("alexnet", _INFERENCE, 0.5, 8),
    Cell("alexnet", _TRAINING, 0.75, 8),
    Cell("alexnet", _INFERENCE, 1.0, 16),
    Cell("googlenet", _INFERENCE, 1.0, 8),
    Cell("alexnet", _INFERENCE, 1.5, 16),
    Cell("googlenet", _TRAINING, 1.5, 16),
    Cell("alexnet", _TRAINING, 2.0, 16),
    Cell("resnet50", _INFERENCE, 2.0, 16),
    Cell("vgg16", _INFERENCE, 1.0, 8),
    Cell("resnet50", _TRAINING, 1.0, 8),
    Cell("vgg16", _TRAINING, 0.75, 4),
    Cell("resnet50", _TRAINING, 2.0, 16),
)
_SECONDS = 3.0
_PACED = 5e-4  # deviation of the logs of rates
_COUNTS = {"one_run": 1, "three_runs": 3}
_SIGMAS = np.geomspace(0.0005, 0.3, 400)
# Below three, an interval of one run is wider than any that one would bill by; 64 is as good as
# knowing sigma.
_DEGREES = (3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)


def figures(repeats: int, minutes: float, file: Path) -> dict[str, Any]:
    """Of all runs in the file, after as many more as fit into the minutes: `repeats` runs, about
    as many of each trial, in random order."""
    trials = emulated_trials(CELLS, seconds=_SECONDS)
    order = trials * math.ceil(repeats / len(trials))
    random.Random(0).shuffle(order)
    order = order[:repeats]
    begun, longest = time.monotonic(), 0.0
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [measurement_from_dict(json.loads(line)) for line in lines]
    for trial in order[len(rows) :]:
        before = time.monotonic()
        if before - begun + longest > 60 * minutes:
            break
        rows.append(one_run(trial))
        with file.open("a") as out:
            out.write(json.dumps(measurement_to_dict(rows[-1])) + "\n")
        longest = max(longest, time.monotonic() - before)
        sys.stderr.write(f"{len(rows)} of {len(order)} runs, {rows[-1].status}\n")
    return {"runs": len(rows), "runs_left": len(order) - len(rows), **covered(rows)}


def covered(rows: Sequence[Measurement]) -> dict[str, Any]:
    """Coverage by the spread that ships over all trials, and over those that a loader binds; the spread that
    these show; each trial."""
    good = [row for row in rows if row.status is Status.OK and rate_interval(row)]
    names = sorted({row.trial.trial_id for row in good})
    trials = [[row for row in good if row.trial.trial_id == name] for name in names]
    # An emulated GPU that binds keeps its pace: its runs say nothing of how real ones differ.
    several = [runs for runs in trials if len(runs) > 1]
    loader_bound = [r for r in several if statistics.stdev(math.log(_rate(run)) for run in r) > _PACED]
    return {
        "not_ok": len(rows) - len(good),
        "shipped": {"sigma": BETWEEN_RUNS.sigma, "degrees": BETWEEN_RUNS.degrees},
        "coverage_shipped": coverage(trials, BETWEEN_RUNS),
        "loader_bound": coverage(loader_bound, BETWEEN_RUNS),
        "estimate_of_all": between_runs(loader_bound),
        "trials": [_of_trial(runs) for runs in trials],
    }


def coverage(trials: Sequence[Sequence[Measurement]], spread: RunSpread) -> dict[str, Any]:
    """Shares of other runs that the intervals of one run and of three held. Each trial weighs
    alike; the error is that of their mean, since the runs of one trial are not independent."""
    result: dict[str, Any] = {}
    for name, count in _COUNTS.items():
        hits = [_hits(runs, count, spread) for runs in trials if len(runs) > count]
        shares = [statistics.fmean(held) for held in hits]
        result[name] = {
            "share": round(statistics.fmean(shares), 3) if shares else None,
            "standard_error": round(statistics.stdev(shares) / math.sqrt(len(shares)), 3)
            if len(shares) > 1
            else None,
            "intervals": sum(map(len, hits)),
            "trials": len(hits),
        }
    return result


def _hits(runs: Sequence[Measurement], count: int, spread: RunSpread) -> list[bool]:
    """By one run, for any other; by `count` in a row, for all the others."""
    if count == 1:
        return [_holds([one], other, spread) for one, other in permutations(runs, 2)]
    groups = [runs[first : first + count] for first in range(len(runs) - count + 1)]
    return [_holds(group, other, spread) for group in groups for other in runs if other not in group]


def _holds(runs: Sequence[Measurement], other: Measurement, spread: RunSpread) -> bool:
    repeats = tuple({"step_seconds": list(run.step_seconds)} for run in runs[1:])
    interval = rate_interval(replace(runs[0], repeats=repeats), spread)
    assert interval is not None
    return interval.lower <= _rate(other) <= interval.upper


def between_runs(trials: Iterable[Sequence[Measurement]]) -> dict[str, Any] | None:
    """The spread that these trials' runs show; None where no trial has two."""
    repeated = [_repeated(runs) for runs in trials if len(runs) > 1]
    return spread_of(repeated) if repeated else None


def _repeated(runs: Sequence[Measurement]) -> Repeated:
    errors = [mean_error(run.step_seconds, run.trial.loader_period) for run in runs]
    within = statistics.fmean(error.relative**2 for error in errors if error is not None)
    return Repeated(statistics.variance(math.log(_rate(run)) for run in runs), len(runs), within)


def _of_trial(runs: Sequence[Measurement]) -> dict[str, Any]:
    trial, logs = runs[0].trial, [math.log(_rate(run)) for run in runs]
    within = _repeated(runs).within if len(runs) > 1 else None
    return {
        "network": trial.workload.network,
        "task": trial.workload.task,
        "vcpus": trial.resources.vcpus,
        "runs": len(runs),
        "samples_per_second": round(statistics.fmean(map(_rate, runs)), 1),
        "deviation_percent": round(100 * statistics.stdev(logs), 2) if len(logs) > 1 else None,
        "error_within_percent": None if within is None else round(100 * math.sqrt(within), 2),
    }


def _rate(row: Measurement) -> float:
    rate = row.throughput_samples_per_second
    assert rate is not None
    return rate


class Repeated(Struct, frozen=True):
    """What `runs` runs of a trial show: the variance of their log rates, and the mean squared
    relative error within a run."""

    variance: float
    runs: int
    within: float


def spread_of(trials: Sequence[Repeated]) -> dict[str, Any]:
    """The likeliest `sigma` and `degrees` on a grid, and between what 95 % of the likelihood lies
    (each over all values of the other one; alike in log sigma and log degrees)."""
    logs = np.array([_log_likelihoods(trials, degrees) for degrees in _DEGREES])
    row, column = np.unravel_index(logs.argmax(), logs.shape)
    # The degrees on the grid are about evenly spaced in their logarithm: each stands for its part.
    widths = np.gradient(np.log(_DEGREES))
    weights = np.exp(logs - logs.max()) * widths[:, None]
    sigmas = _middle(weights.sum(axis=0), _SIGMAS)
    degrees = _middle(weights.sum(axis=1), np.array(_DEGREES))
    return {
        "sigma": round(float(_SIGMAS[column]), 4),
        "sigma_95": [round(value, 4) for value in sigmas],
        "degrees": _DEGREES[row],
        "degrees_95": [int(value) for value in degrees],
        "degrees_on_grid": [_DEGREES[0], _DEGREES[-1]],
        "trials": len(trials),
        "runs": sum(trial.runs for trial in trials),
    }


def _log_likelihoods(trials: Sequence[Repeated], degrees: int) -> np.ndarray:
    """Of each sigma on the grid."""
    variances = np.array([[max(trial.variance, 1e-12)] for trial in trials])
    freedom = np.array([[trial.runs - 1] for trial in trials])
    scales = np.square(_SIGMAS) + np.array([[trial.within] for trial in trials])
    density = f_distribution.logpdf(variances / scales, freedom, degrees) - np.log(scales)
    result: np.ndarray = density.sum(axis=0)
    return result


def _middle(weights: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The values that 95 % of the weight lies between."""
    shares = np.cumsum(weights) / weights.sum()
    lower, upper = np.searchsorted(shares, [0.025, 0.975])
    return float(values[lower]), float(values[min(int(upper), len(values) - 1)])
