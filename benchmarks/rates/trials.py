"""Trials of an emulated GPU behind the real loader, and one run of them, as a sweep makes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from advisor.domain import Accelerator, Measurement, Task, Trial
from advisor.runs.sweeps.data import data_of_networks
from advisor.runs.sweeps.sweeping import local_machine, step_seconds
from sweeps.executors.process import ProcessExecutor
from sweeps.planning.disks import UNLIMITED
from sweeps.planning.networks import planned_network
from sweeps.planning.plan import SweepRequest, plan_trials
from sweeps.trial.trial_process import measure_trial

_MEMORY_MIB = 3072.0
_SAMPLES = 2000


def emulated_trials(cells: Sequence[tuple[str, float, int]]) -> list[Trial]:
    """Inference on an emulated T4: a trial for each network, vCPUs and batch size."""
    networks = tuple({network for network, _, _ in cells})
    data = data_of_networks(networks, None, _made, samples=_SAMPLES)
    requests = [
        SweepRequest(
            networks=(network,),
            tasks=(Task.INFERENCE,),
            vcpus=(vcpus,),
            memory_mib=(_MEMORY_MIB,),
            disks=(UNLIMITED,),
            accelerator=Accelerator.parse("emulated:T4"),
            data=data,
            batch_sizes=(batch_size,),
        )
        for network, vcpus, batch_size in cells
    ]
    return plan_trials(requests, local_machine(), step_seconds, planned_network)


def one_run(trial: Trial) -> Measurement:
    """In processes of its own, under its limits; spoiled ones are not repeated."""
    (measurement,) = ProcessExecutor(partial(measure_trial, repeats=0)).execute([trial])
    return measurement


def _made(made: int, total: int) -> None:
    if made == total:
        sys.stderr.write(f"{total} photographs are there\n")
