"""How many trials of a measured grid tell all of it.

`python -m benchmarks.search_replay measure [--most N]` measures the grid (720 cells: network x
batch x vCPU x RAM x disk on an emulated T4, about four hours of a quiet machine) into the store
that ADVISOR_DATABASE_URL names; it goes on where it stopped. `.. score` replays what the store
holds of it: planned trials against random ones, until the mean error of the surface is 5 %.
The error of a cell is told from its measured rate, of those that were tried too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from statistics import median
from typing import Any

import numpy as np

from advisor.domain import Measurement, Status, Task, Trial
from advisor.operations.adaptive.cells import fits_memory, row_of, surface_of
from advisor.operations.sweep_data import prepared_data
from advisor.operations.sweeping import SweepOptions, execute_sweep, plan_sweep
from models.performance.surface import Belief, Question, Surface, anchor_trials, next_trials
from models.performance.surface.belief import USUAL_NOISE
from sweeps.store import open_store

SCHEMA = "advisor.search-replay/1"
GRID = SweepOptions(
    networks=("alexnet", "googlenet", "resnet50", "vgg16"),
    tasks=(Task.INFERENCE,),
    batch_sizes=(16, 32, 64),
    vcpus=(0.5, 1.0, 1.5, 2.0),
    memory_mib=(1024.0, 1536.0, 2048.0, 3072.0, 6144.0),
    disks=("slow=12MiB/s", "middle=30MiB/s", "gp3"),
    accelerator="emulated:T4",
    rel_error=0.05,
)
AIM = 0.05
_BATCH = 4
_MOST = 120
_SEEDS = 10


def measure(most: int | None) -> None:
    """Measure what is missing, at most `most` trials."""
    data = prepared_data(GRID, _quietly)
    trials = plan_sweep(GRID, data)
    with closing(open_store()) as store:
        done = store.done_ids()
        left = [trial for trial in trials if trial.trial_id not in done]
        sys.stderr.write(f"{len(trials) - len(left)} of {len(trials)} cells are measured\n")
        execute_sweep(
            left[:most], store, executor="process", ray_address=None, retry_failed=False,
            on_progress=lambda told: sys.stderr.write(f"{told.done}/{told.total}\n"),
        )  # fmt: skip


def _quietly(_made: int, _all: int) -> None:
    """Making the data set is told by nobody."""


def score(rows: Sequence[Measurement]) -> dict[str, Any]:
    """Trials until the surface's mean error is 5 %, planned and at random."""
    good = [row for row in rows if row.status is Status.OK and fits_memory(row_of(row.trial, "T4"))]
    if len(good) < 2 * _BATCH:
        raise SystemExit(f"{len(good)} measured cells are too few to replay; measure more")
    surface = surface_of([row_of(row.trial, "T4") for row in good], good)
    truth = np.log([row.throughput_samples_per_second or np.nan for row in good])
    planned = list(_planned(surface, truth))
    random = [_random(surface, truth, seed) for seed in range(_SEEDS)]
    return {
        "schema": SCHEMA,
        "cells": len(good),
        "planned_trials": _until_aim(planned),
        "random_trials": [_until_aim(one) for one in random],
        "random_median_trials": median(_until_aim(one) or _MOST for one in random),
        "planned_errors": dict(planned),
    }


def _planned(surface: Surface, truth: np.ndarray) -> Iterator[tuple[int, float]]:
    every = range(len(truth))
    at = anchor_trials(surface.starting_slopes(), every)
    while True:
        belief = _belief(surface, truth, at)
        yield len(at), _error(belief, truth)
        left = [row for row in every if row not in at]
        choice = next_trials(belief, Question(tuple(every)), left, repeats={}, count=_BATCH)
        if not choice.rows or len(at) >= _MOST:
            return
        at = [*at, *choice.rows]


def _random(surface: Surface, truth: np.ndarray, seed: int) -> list[tuple[int, float]]:
    order = np.random.default_rng(seed).permutation(len(truth)).tolist()
    counts = range(6, min(_MOST, len(truth)) + 1, _BATCH)
    return [(k, _error(_belief(surface, truth, order[:k]), truth)) for k in counts]


def _belief(surface: Surface, truth: np.ndarray, at: Sequence[int]) -> Belief:
    return Belief.after(surface, at, truth[list(at)], np.full(len(at), USUAL_NOISE**2))


def _error(belief: Belief, truth: np.ndarray) -> float:
    return float(np.abs(np.expm1(belief.means(range(len(truth))) - truth)).mean())


def _until_aim(errors: Sequence[tuple[int, float]]) -> int | None:
    """Fewest trials from which on the error stays within the aim; None: never."""
    reached = None
    for trials, error in errors:
        if error > AIM:
            reached = None
        elif reached is None:
            reached = trials
    return reached


def measured_rows(trials: Sequence[Trial]) -> list[Measurement]:
    """What the store holds of these trials."""
    with closing(open_store(reading=True)) as store:
        return list(store.read(trial.trial_id for trial in trials).measurements)


def main() -> None:
    """Measure, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "score"))
    parser.add_argument("--most", type=int, help="trials to measure in this call")
    parser.add_argument("--file", help="score rows of `advisor measurements export` instead")
    asked = parser.parse_args()
    if asked.what == "measure":
        measure(asked.most)
        return
    if asked.file:
        from pathlib import Path

        from advisor.operations.fitting import measurements_from

        rows = measurements_from(Path(asked.file))
    else:
        rows = measured_rows(plan_sweep(GRID, prepared_data(GRID, _quietly)))
    print(json.dumps(score(rows), indent=2))


if __name__ == "__main__":
    main()
