"""Trials of an emulated GPU behind the real loader, and one run of them, as a sweep makes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from advisor.domain import Accelerator, Measurement, Task, Trial
from advisor.runs.sweeps.data import data_of_networks
from advisor.runs.sweeps.sweeping import local_machine, step_seconds
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.networks import planned_network
from advisor.sweeps.planning.plan import SweepRequest, plan_trials
from advisor.sweeps.trial.trial_process import run_attempt

_MEMORY_MIB = 3072.0
_SAMPLES = 2000
_COMMAND = (sys.executable, "-m", "benchmarks.rates.timed_run_only")


class Cell(NamedTuple):
    """What trials differ by."""

    network: str
    task: Task
    vcpus: float
    batch_size: int


def emulated_trials(cells: Sequence[Cell], *, seconds: float, samples: int = _SAMPLES) -> list[Trial]:
    """On an emulated T4, a trial for each cell, of `seconds` of steady state."""
    networks = tuple({cell.network for cell in cells})
    data = data_of_networks(networks, None, _made, samples=samples)
    requests = [
        SweepRequest(
            networks=(cell.network,),
            tasks=(cell.task,),
            vcpus=(cell.vcpus,),
            memory_mib=(_MEMORY_MIB,),
            disks=(UNLIMITED,),
            accelerator=Accelerator.parse("emulated:T4"),
            data=data,
            batch_sizes=(cell.batch_size,),
            measure_seconds=seconds,
            max_seconds=seconds,
        )
        for cell in cells
    ]
    return plan_trials(requests, local_machine(), step_seconds, planned_network)


def one_run(trial: Trial) -> Measurement:
    """In processes of its own, under its limits, without the stages; spoiled ones are not repeated."""
    return run_attempt(trial, command=_COMMAND)


def _made(made: int, total: int) -> None:
    if made == total:
        sys.stderr.write(f"{total} photographs are there\n")
