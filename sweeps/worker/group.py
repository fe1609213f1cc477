"""Coordinates the processes of one trial on several GPUs. Needs torch.

Every process has a GPU, batches and a share of the data set. A training averages its gradients over all
processes by DistributedDataParallel; in other tasks they run independently."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from statistics import fmean
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from msgspec.structs import replace

from advisor.domain import Task, Trial
from advisor.errors import MeasuringError
from advisor.sweeps.worker import timed_run

_FEWEST_PILOT_STEPS = 4

# The end of a process's last step by the machine's clock, and the seconds of each step.
Run = tuple[float, list[float]]


class CommonRun:
    """The steps that every process of a group runs at the same time as the others."""

    def __init__(
        self, trial: Trial, runner: timed_run.StepRunner, batches: Iterator[Any], group: Group
    ) -> None:
        self._trial, self._runner, self._batches, self._group = trial, runner, batches, group
        self._taken = 0
        self._pace = 0.0

    def prepare(self) -> list[float]:
        """Consume prefetched batches, find the pace, and run for the plan's `warmup_seconds`; returns the
        common steps of that time, if any."""
        self._warm_up(timed_run.WARMING_STEPS + timed_run.prepared_ahead(self._trial) + timed_run.QUEUE_DEPTH)
        self._steps(max(_FEWEST_PILOT_STEPS, 2 * self._trial.loader_period))
        if timed_run.settles(self._trial):
            self._steps(self._steps_in(timed_run.SETTLING_SECONDS))
        seconds = self._trial.plan.get("warmup_seconds", 0.0)
        return self._steps(self._steps_in(seconds)) if seconds else []

    def timed(self) -> list[float]:
        """The common steps that count; their number fills the plan's time at the pace so far."""
        plan = self._trial.plan
        count = plan.get("iterations") or min(
            max(plan["min_steps"], self._steps_in(plan["measure_seconds"])),
            self._steps_in(plan["max_seconds"]),
        )
        # The steps that count begin with a full queue.
        self._warm_up(timed_run.QUEUE_DEPTH)
        outside = self._taken + timed_run.prepared_ahead(self._trial)
        # If each process runs as many steps as there are processes, one common step lies within all runs.
        count = max(count, self._group.size)
        steps = self._steps(int(min(count, timed_run.most_steps(self._trial, outside))))
        if not steps:
            raise MeasuringError(
                f"in {count} steps of each process none is of all together",
                hint="give it more samples, or a smaller batch size",
            )
        return steps

    def _warm_up(self, least: int) -> None:
        self._taken += timed_run.warm_up(self._runner, self._batches, least)

    def _steps_in(self, seconds: float) -> int:
        return max(1, math.ceil(seconds / self._pace))

    def _steps(self, count: int) -> list[float]:
        box = timed_run.TimeBox(seconds=0.0, min_steps=count, max_seconds=0.0, iterations=count)
        self._group.wait()
        own = timed_run.timed_steps(self._runner, self._batches, box)
        runs = self._group.gathered((time.perf_counter(), own))
        self._taken += count
        self._pace = max(fmean(steps) for _, steps in runs)
        return common_steps(runs)


def common_steps(runs: Sequence[Run]) -> list[float]:
    """Seconds of each common step (one of every process) while all processes ran."""
    begin = max(end - sum(steps) for end, steps in runs)
    last = min(end for end, _ in runs)
    ends = []
    for end, steps in runs:
        moment = end
        for seconds in reversed(steps):
            ends.append(moment)
            moment -= seconds
    inside = sorted(moment for moment in ends if begin < moment <= last)
    marks = [begin, *inside[len(runs) - 1 :: len(runs)]]
    return [later - earlier for earlier, later in pairwise(marks)]


def common_timed_run(
    trial: Trial, job: Mapping[str, Any], run: CommonRun, group: Group, gpu_uuid: str | None
) -> timed_run.TimedRun:
    """The `timed_run` of a group in its first process, with the resources that all processes use."""
    state = timed_run.machine_state(job["cpus"])
    first_minute = run.prepare()
    watched = timed_run.watched_run(trial, job, state, gpu_uuid, first_minute, run.timed)
    facts = {
        "processes": group.size,
        "gradient_exchange": group.backend if exchanges_gradients(trial) else None,
    }
    return replace(watched, machine={**watched.machine, **facts})


# Practically unlimited, since the parent ends a trial that takes too long.
_PATIENCE = timedelta(hours=12)
# Gloo finds its interface by the host's name, which may not resolve; all processes are on this host.
_INTERFACE = "GLOO_SOCKET_IFNAME"
T = TypeVar("T")


class Group:
    """The process group as process `rank` of `size`; with one process all methods return at once."""

    def __init__(self, rank: int = 0, size: int = 1, waiting: Any = None) -> None:
        self.rank, self.size = rank, size
        self._waiting = waiting

    @property
    def backend(self) -> str | None:
        """The backend that averages gradients; None for a single process."""
        return str(dist.get_backend()) if self.size > 1 else None

    def wait(self) -> None:
        """Wait for all processes, by Gloo: NCCL's kernels would keep the GPUs busy."""
        if self.size > 1:
            dist.barrier(self._waiting)

    def gathered(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        values: list[Any] = [value]
        if self.size > 1:
            values = [None] * self.size
            dist.all_gather_object(values, value, group=self._waiting)
        return values

    def leave(self) -> None:
        """Leave the group; the other processes may already have left."""
        if self.size > 1:
            dist.destroy_process_group()


def joined_group(trial: Trial, job: Mapping[str, Any], rank: int = 0) -> Group:
    """Join the trial's other processes at the job's `rendezvous` (a file), and select a GPU by rank.

    Raises `MeasuringError` if there are too few GPUs."""
    if trial.processes == 1:
        return Group()
    on_gpu = trial.accelerator.is_gpu
    if on_gpu:
        if trial.processes > (gpus := torch.cuda.device_count()):
            raise MeasuringError(
                f"{trial.processes} processes, each on a GPU of its own, and CUDA sees {gpus}",
                hint="ask for fewer GPUs; of slices of a card CUDA sees one alone",
            )
        torch.cuda.set_device(rank)
    os.environ.setdefault(_INTERFACE, "lo")
    averages = exchanges_gradients(trial)
    dist.init_process_group(
        "nccl" if on_gpu and averages else "gloo",
        store=dist.FileStore(job["rendezvous"], trial.processes),  # type: ignore[attr-defined]
        rank=rank,
        world_size=trial.processes,
        timeout=_PATIENCE,
    )
    waiting = dist.new_group(backend="gloo", timeout=_PATIENCE)
    return Group(rank, trial.processes, waiting)


def exchanges_gradients(trial: Trial) -> bool:
    """True if the processes average gradients; the pace of emulated GPUs already includes that."""
    trains = trial.workload.task is Task.TRAINING and not trial.accelerator.is_emulated
    return trains and trial.processes > 1
