"""How often the 95 % interval of a trial's runs holds the rate of another run of it."""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Status
from benchmarks.rates.trials import emulated_trials, one_run
from sweeps.formats.serialization import measurement_from_dict, measurement_to_dict
from sweeps.quality.rates import mean_error, rate_interval

# Bound by the loader at one vCPU, at two, below one, and by the emulated GPU.
_CELLS = (("alexnet", 1.0, 32), ("alexnet", 2.0, 16), ("alexnet", 0.5, 16), ("vgg16", 1.0, 8))
_TOGETHER = 3


def figures(repeats: int, minutes: float, file: Path) -> dict[str, Any]:
    """Of all runs in the file, after as many more as fit into the minutes: a fourth of `repeats`
    of each of four trials, in random order."""
    order = [trial for trial in emulated_trials(_CELLS) for _ in range(math.ceil(repeats / 4))]
    random.Random(0).shuffle(order)
    begun, longest = time.monotonic(), 0.0
    rows = _read(file)
    for trial in order[len(rows) :]:
        before = time.monotonic()
        if before - begun + longest > 60 * minutes:
            break
        rows.append(one_run(trial))
        with file.open("a") as out:
            out.write(json.dumps(measurement_to_dict(rows[-1])) + "\n")
        longest = max(longest, time.monotonic() - before)
        sys.stderr.write(f"{len(rows)} of {len(order)} runs\n")
    return {"runs": len(rows), "runs_left": len(order) - len(rows), **covered(rows)}


def _read(file: Path) -> list[Measurement]:
    if not file.exists():
        return []
    return [measurement_from_dict(json.loads(line)) for line in file.read_text().splitlines()]


def covered(rows: Sequence[Measurement]) -> dict[str, Any]:
    """Shares over all trials together, and of each; what runs of a trial differ by."""
    good = [row for row in rows if row.status is Status.OK and rate_interval(row)]
    trials = [
        [row for row in good if row.trial.trial_id == name]
        for name in dict.fromkeys(row.trial.trial_id for row in good)
    ]
    return {
        "not_ok": len(rows) - len(good),
        "one_run_holds_any_other": _share([hit for runs in trials for hit in _any_other(runs)]),
        "one_run_holds_the_next": _share([hit for runs in trials for hit in _following(runs, 1)]),
        "three_runs_hold_the_next": _share(
            [hit for runs in trials for hit in _following(runs, _TOGETHER)]
        ),
        "between_runs": between_runs(trials),
        "trials": [_of_trial(runs) for runs in trials],
    }


def _any_other(runs: Sequence[Measurement]) -> list[bool]:
    return [_holds([one], other) for one, other in permutations(runs, 2)]


def _following(runs: Sequence[Measurement], count: int) -> list[bool]:
    """By `count` runs in a row, the one after them."""
    return [
        _holds(runs[first : first + count], runs[first + count])
        for first in range(len(runs) - count)
    ]


def _holds(runs: Sequence[Measurement], other: Measurement) -> bool:
    repeats = tuple({"step_seconds": list(run.step_seconds)} for run in runs[1:])
    interval, rate = rate_interval(replace(runs[0], repeats=repeats)), _rate(other)
    assert interval is not None
    return interval.lower <= rate <= interval.upper


def between_runs(trials: Sequence[Sequence[Measurement]]) -> dict[str, float | None]:
    """Standard deviation of log rates beside the error within runs, pooled over trials, and the
    degrees of freedom of a scaled inverse chi-square that the trials' variances scatter as: twice
    the squared mean over the variance of their inverses (the moments of a gamma)."""
    repeated = [runs for runs in trials if len(runs) > 1]
    if not repeated:
        return {"sigma": None, "degrees": None}
    variances = [max(_between(runs), 1e-8) for runs in repeated]
    weights = [len(runs) - 1 for runs in repeated]
    pooled = sum(map(float.__mul__, variances, map(float, weights))) / sum(weights)
    inverses = [1 / variance for variance in variances]
    degrees = None
    if len(inverses) > 1 and (spread := statistics.variance(inverses)) > 0:
        degrees = round(2 * statistics.fmean(inverses) ** 2 / spread, 1)
    return {"sigma": round(math.sqrt(pooled), 4), "degrees": degrees}


def _between(runs: Sequence[Measurement]) -> float:
    errors = [mean_error(run.step_seconds, run.trial.loader_period) for run in runs]
    within = statistics.fmean(error.relative**2 for error in errors if error)
    return statistics.variance([math.log(_rate(run)) for run in runs]) - within


def _of_trial(runs: Sequence[Measurement]) -> dict[str, Any]:
    trial, logs = runs[0].trial, [math.log(_rate(run)) for run in runs]
    apart = [abs(one - other) for one, other in pairwise(logs)]
    return {
        "network": trial.workload.network,
        "vcpus": trial.resources.vcpus,
        "runs": len(runs),
        "samples_per_second": round(statistics.fmean(map(_rate, runs)), 1),
        "deviation_percent": round(100 * statistics.stdev(logs), 2) if len(logs) > 1 else None,
        "consecutive_runs_differ_percent": round(100 * statistics.median(apart), 2)
        if apart
        else None,
        "one_run_holds_any_other": _share(_any_other(runs)),
    }


def _rate(row: Measurement) -> float:
    rate = row.throughput_samples_per_second
    assert rate is not None
    return rate


def _share(hits: Sequence[bool]) -> float | None:
    return round(statistics.fmean(hits), 3) if hits else None
