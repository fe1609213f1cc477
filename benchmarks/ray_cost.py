"""What Ray costs a sweep: time per trial, how busy a fleet is, the driver's memory.

A trial here is a real one (lease, limits, worker process, its protocol, a row in SQLite) whose
worker only sleeps. Nodes are emulated on this machine (`ray.cluster_utils.Cluster`), so that they
share its cores. The parts fleet and memory have no worker processes: 16 at a time would measure
these cores, and 10,000 would take hours.
    python -m benchmarks.ray_cost cost|cluster-cost|fleet|memory --json
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.domain import (
    ON_CPU,
    Accelerator,
    DatasetProfile,
    DiskRate,
    LimitedBy,
    Measurement,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import Progress, run_sweep
from advisor.sweeps.executors.data import Measure
from advisor.sweeps.executors.process import Executor, ProcessExecutor
from advisor.sweeps.executors.ray.executor import RayExecutor
from advisor.sweeps.formats.serialization import measurement_to_dict
from advisor.sweeps.trial.placement.taking import anywhere
from advisor.sweeps.trial.trial_process import run_attempt

SCHEMA = "advisor.ray-cost/1"
ROOT = Path(__file__).resolve().parents[1]
ROUNDS, TRIALS_A_ROUND, STEPS = 5, 40, 600
SLEEP_SECONDS, FLEET_TRIALS, FLEET = 0.5, 400, ("T4",) * 4 + ("L4",) * 4
SLOTS_A_NODE = 2
MEMORY_TRIALS = 10_000
_PROFILE = DatasetProfile(
    name="none", samples=1, bytes_per_sample=1.0, storage_format="jpeg-files", width=1, height=1
)
_WORKER = """
import sys, time
sys.stdin.readline()
time.sleep({seconds})
print({answer!r})
"""


def trials(count: int, mark: str) -> list[Trial]:
    """Trials that differ in their memory alone; other ones for each mark."""
    workload = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=1, dataset=_PROFILE)
    return [
        Trial(
            workload=workload,
            resources=Resources(
                vcpus=0.5, physical_cores=0.5, memory_mib=512 + number / 1024, disk=DiskRate(type="unlimited")
            ),
            accelerator=ON_CPU,
            dataset_path=str(ROOT),
            plan={"mark": mark},
        )
        for number in range(count)
    ]


def row_of(trial: Trial) -> Measurement:
    """As large as a real one."""
    steps = tuple(0.1 + 1e-6 * (step * 7919 % 1000) for step in range(STEPS))
    return Measurement(
        trial=trial,
        status=Status.OK,
        limited_by=LimitedBy.HOST,
        step_seconds=steps,
        started_at="2026-11-21T12:00:00+00:00",
    )


def measured_by_a_worker(trial: Trial, seconds: float) -> Measurement:
    """The real path around a worker that only sleeps."""
    answer = json.dumps(measurement_to_dict(row_of(trial)))
    script = _WORKER.format(seconds=seconds, answer=answer)
    return run_attempt(trial, command=(sys.executable, "-S", "-c", script), place=anywhere)


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A head that takes no trial, and nodes that take one each."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)})
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    small = {"object_store_memory": 80 * 2**20}
    one = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    try:
        for _ in range(nodes):
            one.add_node(num_cpus=1, resources={"advisor_trial": 1}, **small)
        yield one
    finally:
        one.shutdown()


def seconds_of(executor: Executor, asked: Sequence[Trial], folder: Path, **options: Any) -> float:
    """A sweep of these trials, all of them stored well."""
    with closing(SqlStore(f"sqlite:///{folder}/{asked[0].plan['mark']}.sqlite")) as store:
        begun = time.perf_counter()
        outcome = run_sweep(asked, executor, store, **options)
        seconds = time.perf_counter() - begun
        stored = len(store.done_ids())
    if outcome.failed or stored != len(asked):
        raise SystemExit(f"{outcome.failed} failed, {stored} of {len(asked)} stored: {outcome}")
    return seconds


def own_cost(folder: Path) -> dict[str, Any]:
    """Milliseconds a trial: processes against a Ray of the advisor's own."""
    measure = partial(measured_by_a_worker, seconds=0.0)
    return in_turns(folder, "own_ray", measure, lambda: RayExecutor(measure=measure))


def cluster_cost(folder: Path) -> dict[str, Any]:
    """The same against a cluster of one node."""
    measure = partial(measured_by_a_worker, seconds=0.0)
    with cluster(1) as one:
        return in_turns(folder, "cluster", measure, lambda: RayExecutor(one.address, measure=measure))


def in_turns(folder: Path, name: str, measure: Measure, make: Callable[[], Executor]) -> dict[str, Any]:
    """Milliseconds a trial of both executors, and of each round the difference."""
    found: dict[str, list[float]] = {"process": [], name: []}
    for turn in range(ROUNDS):
        for kind in found:
            executor = ProcessExecutor(measure) if kind == "process" else make()
            with closing(executor):
                mark = f"{name}-{kind}-{turn}"
                seconds_of(executor, trials(3, f"warm-{mark}"), folder)
                asked = trials(TRIALS_A_ROUND, mark)
                found[kind].append(1000 * seconds_of(executor, asked, folder) / len(asked))
    over = [mine - base for mine, base in zip(found[name], found["process"], strict=True)]
    milliseconds = {kind: spread(times) for kind, times in found.items()}
    return {
        "trials": ROUNDS * TRIALS_A_ROUND,
        "milliseconds_a_trial": milliseconds,
        "over_process": spread(over),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median of the rounds, and what they range over."""
    middle = statistics.median(values)
    return {"median": round(middle, 1), "least": round(min(values), 1), "most": round(max(values), 1)}


def fleet(folder: Path) -> dict[str, Any]:
    """Eight nodes of two kinds of GPU with two GPUs each: the share of their slots that is busy
    from the first trial's beginning to the last one's end, both kinds in turns."""
    from tests.sweeps.ray_clusters import add_node, cluster_of

    with cluster_of() as one:
        for gpu in FLEET:
            add_node(one, cpus=4, gpu=gpu, trials=SLOTS_A_NODE)
        with closing(RayExecutor(one.address, measure=slept)) as executor:
            seconds_of(executor, on_gpus(8 * len(FLEET), "warm"), folder)
            busy, begun = cpu_seconds(), time.perf_counter()
            seconds_of(executor, on_gpus(FLEET_TRIALS, "fleet"), folder)
            cores = (cpu_seconds() - busy) / (time.perf_counter() - begun)
    with closing(SqlStore(f"sqlite:///{folder}/fleet.sqlite")) as store:
        spans = [row.environment["span"] for row in store.all()]
    first, last = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    slots = SLOTS_A_NODE * len(FLEET)
    return {
        "nodes": len(FLEET),
        "slots": slots,
        "trials": len(spans),
        "sleep_seconds": SLEEP_SECONDS,
        "seconds": round(last - first, 2),
        "machine_cores_busy": round(cores, 2),
        "slots_busy": round(sum(end - begin for begin, end in spans) / slots / (last - first), 3),
    }


def on_gpus(count: int, mark: str) -> list[Trial]:
    """Trials of the fleet's GPUs in turns."""
    kinds = [Accelerator.parse(f"cuda:{gpu}") for gpu in sorted(set(FLEET))]
    return [
        replace(one, accelerator=kinds[number % len(kinds)]) for number, one in enumerate(trials(count, mark))
    ]


def slept(trial: Trial) -> Measurement:
    """A row that says when its trial had its slot."""
    begun = time.time()
    time.sleep(SLEEP_SECONDS)
    return replace(row_of(trial), environment={"span": [begun, time.time()]})


def cpu_seconds() -> float:
    """CPU time of all processes of this machine, since it was started."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory(folder: Path) -> dict[str, Any]:
    """The driver's resident memory in the course of 10,000 trials with 600 steps each."""
    rows: list[tuple[int, float]] = []

    def told(progress: Progress) -> None:
        if progress.measurement and progress.done % 1000 in (0, 100):
            rows.append((progress.done, resident_mib()))

    with cluster(2) as one, closing(RayExecutor(one.address, measure=row_of)) as executor:
        asked = trials(MEMORY_TRIALS, "memory")
        seconds = seconds_of(executor, asked, folder, on_progress=told)
    return {
        "trials": MEMORY_TRIALS,
        "milliseconds_a_trial": round(1000 * seconds / MEMORY_TRIALS, 1),
        "resident_mib": [[done, round(size, 1)] for done, size in rows],
    }


def resident_mib() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Print one JSON document."""
    parts = {"cost": own_cost, "cluster-cost": cluster_cost, "fleet": fleet, "memory": memory}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    part = parser.parse_args().part
    with tempfile.TemporaryDirectory() as folder:
        load = os.getloadavg()[0]
        result = parts[part](Path(folder))
    result = {"schema": SCHEMA, "part": part, "load_before": round(load, 1), **result}
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
