"""Runs with stalls and slow phases: the rate of the row over what was achieved by the wall clock.

The run is the worker's own (`timed_run`) on a real clock, with an emulated GPU that takes 30 ms a step; what
it computes on comes from a loader that sleeps on purpose."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

from advisor.domain import (
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
from advisor.sweeps.machine.environment import allowed_cpus
from advisor.sweeps.trial.limits import PROCESS_TREE
from advisor.sweeps.worker.engine import EmulatedGpu
from advisor.sweeps.worker.timed_run import StepRunner, timed_run

STEPS = 100
_STEP_SECONDS = 0.030
_PLACES = (0, 1, 2, 10, 33, 50, 66, 90, 96, 97)

Delays = dict[int, float]


def cases() -> dict[str, Delays]:
    """Seconds by which the loader is late, by the number of the batch. Two batches are in flight
    when a run begins, and are its first steps: it asks for two less than it has steps."""
    single = {f"300 steps long, at {place}": {place: 300 * _STEP_SECONDS} for place in _PLACES}
    return single | {
        "four, six steps long": dict.fromkeys((10, 35, 60, 85), 6 * _STEP_SECONDS),
        "every 21st step, five steps long": dict.fromkeys(range(20, STEPS, 21), 5 * _STEP_SECONDS),
        "the last 40 %, 30 % slower": dict.fromkeys(range(60, STEPS), 1.3 * _STEP_SECONDS),
    }


def figures() -> dict[str, Any]:
    """The ratio of each case, and the share that was lost in stalls."""
    results = []
    for name, late in cases().items():
        sys.stderr.write(f"{name}\n")
        results.append({"case": name, **_measured(late)})
    ratios = [result["rate_over_achieved"] for result in results]
    return {"smallest": min(ratios), "largest": max(ratios), "cases": results}


def _measured(late: Delays) -> dict[str, float]:
    trial = stalled_trial()
    job = {"usage_source": {"kind": PROCESS_TREE}, "cpus": allowed_cpus()}
    runner = StepRunner(EmulatedGpu(_STEP_SECONDS))
    window = timed_run(trial, job, runner, _batches(late, _prepared(trial)))
    row = Measurement(
        trial=trial, status=Status.OK, limited_by=LimitedBy.HOST, step_seconds=tuple(window.step_seconds)
    )
    rate, share = row.throughput_samples_per_second, row.stall_share
    assert rate is not None
    assert share is not None
    achieved = STEPS * trial.samples_per_step / window.wall_seconds
    return {"rate_over_achieved": round(rate / achieved, 4), "stall_share": round(share, 4)}


def _batches(late: Delays, before: int) -> Iterator[tuple[None, None]]:
    """Endless batches; `before` of them come before the run is timed."""
    for number in itertools.count(-before):
        if number in late:
            time.sleep(late[number])
        yield None, None


def _prepared(trial: Trial) -> int:
    """Batches that are used up before: those made ahead, and what is in flight."""
    return int(trial.plan["loader_workers"] * trial.plan["prefetch_factor"]) + 2


def stalled_trial() -> Trial:
    """What the run is of: steps of 30 ms on an emulated GPU."""
    profile = DatasetProfile(
        name="none", samples=10_000, bytes_per_sample=1e5, storage_format="jpeg-files", width=500, height=375
    )
    disk = DiskRate(type="unlimited")
    return Trial(
        workload=Workload(network="alexnet", task=Task.INFERENCE, batch_size=8, dataset=profile),
        resources=Resources(vcpus=1.0, physical_cores=1.0, memory_mib=4096.0, disk=disk),
        accelerator=Accelerator.parse("emulated:T4"),
        emulated_step_seconds=_STEP_SECONDS,
        plan={
            "measure_seconds": 1.0,
            "min_steps": 20,
            "max_seconds": 60.0,
            "iterations": STEPS,
            "loader_workers": 1,
            "prefetch_factor": 2,
        },
    )
