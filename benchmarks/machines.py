"""`python -m benchmarks.machines [COUNT]`: milliseconds of CPU to predict one workload on many machines.

Machines differ in vCPUs, RAM, disk and GPU, as options of a question do. `prepare` finds the rate of each
stage of each machine, `estimates` joins the stages to rates with bounds. The least of fifteen runs is
printed; the aim is 50 ms for 20,000 machines, both together."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable

from advisor.catalog import load_catalog
from advisor.domain import Cpu, DiskRate, Precision, Resources, Task, Workload
from advisor.models.performance import load_model

_RUNS = 15
_WORKLOAD = Workload(network="resnet50", task=Task.TRAINING, batch_size=64, precision=Precision.AMP)
_CPU = Cpu(model="any", architecture="x86_64", single_thread_score=2500.0, second_thread_yield=0.3)


def machines(count: int) -> list[Resources]:
    """So many machines, each with one of the catalogue's GPUs or none."""
    draw = random.Random(2)
    gpus = [None, *load_catalog().gpus.values()]
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
            cpu=_CPU,
            gpu=draw.choice(gpus),
        )
        for vcpus in draw.choices((2.0, 4.0, 8.0, 16.0, 32.0, 96.0), k=count)
    ]


def milliseconds(work: Callable[[], object]) -> float:
    """The least CPU time of `_RUNS` runs."""
    spent = []
    for _ in range(_RUNS):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return round(1e3 * min(spent), 1)


def main(count: int = 20_000) -> None:
    """Print the times as JSON."""
    model, options = load_model(), [(_WORKLOAD, machine) for machine in machines(count)]
    prepared = model.prepare(options)
    times = {
        "prepare": milliseconds(lambda: model.prepare(options)),
        "estimates": milliseconds(prepared.estimates),
        "both": milliseconds(lambda: model.prepare(options).estimates()),
    }
    print(json.dumps({"machines": count, "cpu_ms": times}, indent=1))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
