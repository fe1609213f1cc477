"""How fast the performance model is: `python benchmarks/model_speed.py --json`.

Fits 500 measurements (the bundled sweep's trials again and again, their steps jittered by 3 %, so
it is a fit of real trials but not of 500 different ones) and predicts 20,000 machines of one
workload (real data sheets, drawn vCPUs, memory and disks). Best of several runs, in wall-clock and
in CPU seconds: only the latter mean much while other programs run. Ratios are to
`python -c "import click, numpy, json"` started in the same run.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import Cpu, DiskRate, Measurement, Precision, Resources, Status, Task, Workload
from advisor.models.performance import load_model
from advisor.models.performance.machines import ResourceTable
from advisor.runs.fitting import fit_user_model, measurements_from
from benchmarks.bundled_model import BUNDLED_MEASUREMENTS

_MEASUREMENTS, _MACHINES = 500, 20_000
_NOISE = 0.03
_START = (sys.executable, "-c", "import click, numpy, json")


def resampled_sweep(count: int) -> list[Measurement]:
    """The bundled trials in turns, each time with other steps and a data set of another size."""
    draw = random.Random(1)
    whole = [m for m in measurements_from(BUNDLED_MEASUREMENTS) if m.status is Status.OK]
    turns = itertools.islice(itertools.cycle(whole), count)
    return [_jittered(m, draw, number // len(whole)) for number, m in enumerate(turns)]


def _jittered(measurement: Measurement, draw: random.Random, turn: int) -> Measurement:
    workload = measurement.trial.workload
    # A trial is known by its content, and none may be there twice.
    dataset = replace(workload.dataset, samples=workload.dataset.samples + turn)
    trial = replace(measurement.trial, workload=replace(workload, dataset=dataset))
    factor = 1 + draw.gauss(0, _NOISE)
    steps = tuple(seconds * factor for seconds in measurement.step_seconds)
    return replace(measurement, trial=trial, step_seconds=steps)


def machines(count: int) -> list[Resources]:
    """Machines with any GPU that has a data sheet, or none."""
    draw = random.Random(2)
    gpus = [None, *load_catalog().gpus.values()]
    cpu = Cpu(model="any", architecture="x86_64", single_thread_score=2500.0, second_thread_yield=0.3)
    return [
        Resources(
            vcpus=vcpus,
            physical_cores=vcpus / 2,
            memory_mib=vcpus * draw.choice((2048, 4096, 8192)),
            disk=DiskRate(
                type="any",
                read_mib_per_second=draw.choice((125.0, 250.0, 500.0, 1000.0)),
                read_iops=draw.choice((3000.0, 16000.0)),
            ),
            cpu=cpu,
            gpu=draw.choice(gpus),
        )
        for vcpus in draw.choices((2.0, 4.0, 8.0, 16.0, 32.0, 96.0), k=count)
    ]


def best_of(runs: int, work: Callable[[], object]) -> dict[str, float]:
    """The smallest wall-clock and CPU seconds of `runs` runs."""
    walls, processors = [], []
    for _ in range(runs):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return {"wall_seconds": round(min(walls), 4), "cpu_seconds": round(min(processors), 4)}


def speed() -> dict[str, Any]:
    """All figures as one document."""
    model = load_model()
    rows, resources = resampled_sweep(_MEASUREMENTS), machines(_MACHINES)
    workload = Workload(network="resnet50", task=Task.TRAINING, batch_size=64, precision=Precision.AMP)
    table = ResourceTable.of(resources)
    requests = [(workload, one) for one in resources]
    found: dict[str, dict[str, float]] = {
        "start_of_python": best_of(5, lambda: subprocess.run(_START, check=True)),
        "fit": best_of(2, lambda: fit_user_model(rows)),
        "predict_columns": best_of(15, lambda: model.predict_columns(workload, table)),
        "columns_of_resources": best_of(3, lambda: ResourceTable.of(resources)),
        "predict": best_of(3, lambda: model.predict(requests)),
    }
    start = found["start_of_python"]["wall_seconds"]
    for figures in found.values():
        figures["ratio_to_start"] = round(figures["wall_seconds"] / start, 2)
    return {
        "measurements": _MEASUREMENTS,
        "fitted": fit_user_model(rows).fitted,
        "machines": _MACHINES,
        "numpy": np.__version__,
        "runs": found,
    }


if __name__ == "__main__":
    print(json.dumps(speed(), indent=2))
