"""How many trials of a large grid tell all of it, on cells that were measured.

The grid has 720 cells (network x batch x vCPU x RAM x disk on an emulated T4), 19 s each: four
hours of a quiet machine. So a random sample of cells stands for all of them, and the planner may
choose among all:

`python -m benchmarks.search_replay measure --planned 24` measures what the planner asks for,
`.. measure --sample 120` a random sample of the cells, into the store that ADVISOR_DATABASE_URL
names; both go on where they stopped; `.. table` prints what is stored as CSV. `.. score [--table
FILE]` tells the surface's mean error after each batch, over cells of the sample that were not
tried: of planned trials, and of as many drawn from the sample at random, fitted alike; by default
of the committed table (data/SOURCES.md).
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from msgspec import Struct

from advisor.domain import Measurement, Status, Task, Trial
from advisor.models.performance.surface import Belief, Question, Surface, anchor_trials, next_trials
from advisor.models.performance.surface.belief import USUAL_NOISE
from advisor.runs.adaptive.cells import fits_memory, row_of, surface_of
from advisor.runs.sweep_questions import SweepGrid
from advisor.runs.sweeps.data import planned_data, prepared_data
from advisor.runs.sweeps.sweeping import execute_sweep, plan_sweep
from advisor.store.measurements import open_store

SCHEMA = "advisor.search-replay/1"
GRID = SweepGrid(
    networks=("alexnet", "googlenet", "resnet50", "vgg16"),
    tasks=(Task.INFERENCE,),
    batch_sizes=(16, 32, 64),
    vcpus=(0.5, 1.0, 1.5, 2.0),
    memory=(1024.0, 1536.0, 2048.0, 3072.0, 6144.0),
    disks=("slow=12MiB/s", "middle=30MiB/s", "gp3"),
    accelerator=("emulated:T4",),
    rel_error=0.05,
)
AIM = 0.05
_BATCH = 4
_MOST = 60
_SEEDS = 20
_SAMPLE_SEED = 0
_FEWEST_LEFT = 30  # cells that an error is told of
_FEW = 2  # cells alike that tell nothing of one of them
_TIGHT_MIB = 1100  # a sixth of the data set is read from the disk


class Grid(Struct, frozen=True):
    """The cells that have the memory to live, and their surface."""

    trials: tuple[Trial, ...]
    surface: Surface

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Grid:
        """All trials of a plan but for those that would die."""
        rows = [(trial, row_of(trial, "T4")) for trial in trials]
        able = [(trial, row) for trial, row in rows if fits_memory(row)]
        surface = surface_of([row for _, row in able], ())
        return cls(tuple(trial for trial, _ in able), surface)

    def sample(self) -> list[int]:
        """The cells in a random order that is the same each time."""
        return np.random.default_rng(_SAMPLE_SEED).permutation(len(self.trials)).tolist()

    def planned(self, rates: Rates) -> Iterator[list[int]]:
        """What the planner tries, batch after batch; the last one it asks for may be without
        rates yet."""
        every = range(len(self.trials))
        tried = anchor_trials(self.surface.starting_slopes(), every)
        while True:
            yield tried
            if len(tried) >= _MOST or not all(row in rates for row in tried):
                return
            belief = self.belief(tried, rates)
            left = [row for row in every if row not in tried]
            choice = next_trials(belief, Question(tuple(every)), left, repeats={}, count=_BATCH)
            if not choice.rows:
                return
            tried = [*tried, *choice.rows]

    def belief(self, tried: Sequence[int], rates: Rates) -> Belief:
        """What these trials tell of all cells; one that gave no rate tells nothing."""
        good = [row for row in tried if rates[row] > 0]
        logs = np.log([rates[row] for row in good])
        return Belief.after(self.surface, good, logs, np.full(len(good), USUAL_NOISE**2))

    def error(self, tried: Sequence[int], rates: Rates, scored: Sequence[int]) -> float:
        """Mean relative error of the cells in `scored` that were not tried."""
        rest = [row for row in scored if row not in set(tried) and rates[row] > 0]
        logs = np.log([rates[row] for row in rest])
        off = self.belief(tried, rates).means(rest) - logs
        return float(np.abs(np.expm1(off)).mean())


# samples/s by place in the grid, 0 where the trial gave none; what was not measured is missing.
Rates = dict[int, float]
Cell = tuple[str, int, float, float, float]
CELL = ("network", "batch_size", "vcpus", "memory_mib", "disk_mib_per_second")
RATE = "samples_per_second"
TABLE = Path(__file__).parent / "data" / "search_replay.csv"


def measure_planned(grid: Grid, most: int) -> None:
    """Measure what the planner asks for, until it has `most` cells."""
    while True:
        *_, tried = grid.planned(rates_of(grid, stored_rows(grid)))
        wanted = tried[:most]
        if not _measure([grid.trials[row] for row in wanted]) or len(tried) >= most:
            return


def measure_sample(grid: Grid, most: int) -> None:
    """Measure the first cells of the random order."""
    _measure([grid.trials[row] for row in grid.sample()[:most]])


def _measure(trials: Sequence[Trial]) -> int:
    """Measure those that are not stored yet; how many that was."""
    with closing(open_store()) as store:
        done = store.done_ids()
        left = [trial for trial in trials if trial.trial_id not in done]
        if left:
            execute_sweep(
                left,
                store,
                executor="process",
                ray_address=None,
                retry_failed=False,
                on_progress=lambda told: sys.stderr.write(f"{told.done}/{told.total}\n"),
            )
    return len(left)


def _quietly(_made: int, _all: int) -> None:
    """Making the data set is told by nobody."""


def cell_of(trial: Trial) -> Cell:
    """A trial without what differs from machine to machine (paths, the CPU)."""
    resources = trial.resources
    return (
        trial.workload.network,
        trial.workload.batch_size,
        resources.vcpus,
        resources.memory_mib,
        resources.disk.read_mib_per_second or math.inf,
    )


def rates_of(grid: Grid, rows: Sequence[Measurement]) -> Rates:
    """What was measured, by its place in the grid."""
    return placed(grid, {cell_of(row.trial): _rate(row) for row in rows})


def placed(grid: Grid, rates: Mapping[Cell, float]) -> Rates:
    """Rates of cells by their places in the grid."""
    cells = {place: cell_of(trial) for place, trial in enumerate(grid.trials)}
    return {place: rates[cell] for place, cell in cells.items() if cell in rates}


def _rate(row: Measurement) -> float:
    return (row.throughput_samples_per_second or 0.0) if row.status is Status.OK else 0.0


def print_table(rows: Sequence[Measurement]) -> None:
    """The rows in the order in which they were measured."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow((*CELL, RATE, "started_at"))
    for row in sorted(rows, key=lambda one: one.started_at):
        out.writerow((*cell_of(row.trial), round(_rate(row), 2), row.started_at[:19]))


def read_table(path: Path) -> dict[Cell, float]:
    """The rates of such a table."""
    with path.open(newline="") as file:
        return {
            (
                row["network"],
                int(row["batch_size"]),
                float(row["vcpus"]),
                float(row["memory_mib"]),
                float(row["disk_mib_per_second"]),
            ): float(row[RATE])
            for row in csv.DictReader(file)
        }


def score(grid: Grid, rates: Rates) -> dict[str, Any]:
    """Trials until the surface's mean error is 5 %, planned and at random."""
    *batches, last = grid.planned(rates)
    batches += [last] if all(row in rates for row in last) else []
    sample = _complete(grid.sample(), rates)
    if len(sample) < 2 * _FEWEST_LEFT or not batches:
        raise SystemExit(f"{len(rates)} measured cells are too few to score; measure more")
    planned = [(len(tried), grid.error(tried, rates, sample)) for tried in batches]
    random = [list(_random(grid, rates, sample, seed)) for seed in range(_SEEDS)]
    enough, enough_at_random = _until_aim(planned), [_until_aim(one) for one in random]
    return {
        "schema": SCHEMA,
        "cells": len(grid.trials),
        "measured": len(rates),
        "sample": len(sample),
        "without_a_rate": sum(not rate for rate in rates.values()),
        "planned_trials": enough,
        "planned_share_of_cells": _share(enough, len(grid.trials)),
        "random_trials": enough_at_random,
        "random_median_trials": median(one or _MOST for one in enough_at_random),
        "planned_errors": {count: round(error, 4) for count, error in planned},
        "random_median_errors": _medians(random),
        "error_of_alike_cells": round(_error_of_alike(grid, rates), 4),
    }


def _error_of_alike(grid: Grid, rates: Rates) -> float:
    """Of telling a cell by the measured ones of the same network, vCPUs, and whether all of the
    data set stays in memory: without any model, so that noise is most of it."""
    alike: dict[tuple[str, float, bool], list[float]] = defaultdict(list)
    for place, rate in rates.items():
        network, _, vcpus, memory_mib, _ = cell_of(grid.trials[place])
        if rate > 0:
            alike[network, vcpus, memory_mib > _TIGHT_MIB].append(float(np.log(rate)))
    off = [
        (sum(logs) - one) / (len(logs) - 1) - one
        for logs in alike.values()
        if len(logs) > _FEW
        for one in logs
    ]
    return float(np.abs(np.expm1(off)).mean())


def _complete(order: Sequence[int], rates: Rates) -> list[int]:
    """The cells of the random order up to the first that was not measured: a fair sample."""
    return list(takewhile(rates.__contains__, order))


def _random(grid: Grid, rates: Rates, sample: list[int], seed: int) -> Iterator[tuple[int, float]]:
    order = np.random.default_rng(seed).permutation(sample).tolist()
    for count in range(6, min(_MOST, len(sample) - _FEWEST_LEFT) + 1, _BATCH):
        yield count, grid.error(order[:count], rates, sample)


def _medians(runs: Sequence[Sequence[tuple[int, float]]]) -> dict[int, float]:
    counts = [count for count, _ in runs[0]]
    return {count: round(median(run[place][1] for run in runs), 4) for place, count in enumerate(counts)}


def _share(trials: int | None, cells: int) -> float | None:
    return None if trials is None else round(trials / cells, 4)


def _until_aim(errors: Sequence[tuple[int, float]]) -> int | None:
    """Fewest trials from which on the error stays within the aim; None: never."""
    reached = None
    for trials, error in errors:
        if error > AIM:
            reached = None
        elif reached is None:
            reached = trials
    return reached


def stored_rows(grid: Grid) -> list[Measurement]:
    """What the store holds of the cells."""
    with closing(open_store(reading=True)) as store:
        return list(store.read(trial.trial_id for trial in grid.trials).measurements)


def main() -> None:
    """Measure, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "table", "score"))
    parser.add_argument("--planned", type=int, default=0, help="trials that the planner chooses")
    parser.add_argument("--sample", type=int, default=0, help="trials drawn at random")
    parser.add_argument("--table", type=Path, default=TABLE, help="what `table` printed")
    asked = parser.parse_args()
    if asked.what == "score":
        grid = Grid.of(plan_sweep(GRID, planned_data(GRID)))
        print(json.dumps(score(grid, placed(grid, read_table(asked.table))), indent=2))
        return
    grid = Grid.of(plan_sweep(GRID, prepared_data(GRID, _quietly)))
    if asked.what == "table":
        print_table(stored_rows(grid))
        return
    measure_planned(grid, asked.planned)
    measure_sample(grid, asked.sample)


if __name__ == "__main__":
    main()
