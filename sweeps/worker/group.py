"""The processes of one trial on several GPUs: one each, and what they wait for together. Needs
torch.

Every process has a share of the data set, batches, and a GPU. A training averages its gradients
over all of them, as DistributedDataParallel does; other tasks run side by side.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from advisor.domain import Task, Trial
from advisor.errors import MeasuringError

# The parent ends a trial that takes too long; nothing here has to.
_PATIENCE = timedelta(hours=12)
# Gloo looks for an interface by the host's name, which may lead nowhere; all are on this host.
_INTERFACE = "GLOO_SOCKET_IFNAME"
T = TypeVar("T")


class Group:
    """Process `rank` of `size`; one alone waits for nobody."""

    def __init__(self, rank: int = 0, size: int = 1, waiting: Any = None) -> None:
        self.rank, self.size = rank, size
        self._waiting = waiting

    @property
    def backend(self) -> str | None:
        """The backend that averages gradients; None for a single process."""
        return str(dist.get_backend()) if self.size > 1 else None

    def wait(self) -> None:
        """Until all are here, without NCCL: its kernels would keep the GPUs busy."""
        if self.size > 1:
            dist.barrier(self._waiting)

    def gathered(self, value: T) -> list[T]:
        """The values of all, by rank."""
        found: list[Any] = [value]
        if self.size > 1:
            found = [None] * self.size
            dist.all_gather_object(found, value, group=self._waiting)
        return found

    def leave(self) -> None:
        """The others may have gone already."""
        if self.size > 1:
            dist.destroy_process_group()


def joined_group(trial: Trial, job: Mapping[str, Any], rank: int = 0) -> Group:
    """With the others of the trial, at the job's `rendezvous`, a file; on a GPU of its own.

    `MeasuringError` where there are too few.
    """
    if trial.processes == 1:
        return Group()
    on_gpu = trial.accelerator.is_gpu
    if on_gpu:
        _refuse_few_gpus(trial.processes, torch.cuda.device_count())
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
    """Whether the processes train one network together. Emulated GPUs have no gradients: their
    pace is that of GPUs which exchange them."""
    trains = trial.workload.task is Task.TRAINING and not trial.accelerator.is_emulated
    return trains and trial.processes > 1


def _refuse_few_gpus(wanted: int, gpus: int) -> None:
    if wanted > gpus:
        raise MeasuringError(
            "{wanted} processes, each on a GPU of its own, and CUDA sees {gpus}",
            wanted=wanted,
            gpus=gpus,
            hint="ask for fewer GPUs; of slices of a card CUDA sees one alone",
        )
