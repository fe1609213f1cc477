"""Sweeps that are worth having by name."""

from __future__ import annotations

from collections.abc import Callable

from advisor.domain import ON_CPU, Accelerator, DiskRate, Task
from advisor.sweeps.planning.networks import SweepData
from advisor.sweeps.planning.plan import SweepRequest

_VCPUS = (0.5, 1.0, 2.0)
# The first holds the worker and about half of the data set (1 GB), the second all of both. In 800
# MiB AlexNet on two vCPUs is sometimes killed.
_MEMORY_MIB = (880.0, 3072.0)
# The slow disk binds where the data set does not fit in memory. An own rate, and not a type as
# st1: at 20 IOPS for half a TiB, as that one has, a handful of steps would take minutes.
_DISKS = ("slow=12MiB/s", "gp3")
_TOO_LITTLE_MEMORY_MIB = 160.0
_MAX_SECONDS = 8.0
_EMULATED_T4 = Accelerator.parse("emulated:T4")


def requests_of_preset(data: SweepData, disk_rate: Callable[[str], DiskRate]) -> list[SweepRequest]:
    """`small`: what a performance model can be fitted to, in less than ten minutes on 2 cores.

    vCPUs and memory on an emulated T4 and on the CPU, with a slow disk where the data set does
    not fit in the memory; a network whose training and inference the accelerator bounds; the
    input pipeline alone; and one trial that cannot fit in its memory.
    """
    slow, fast = (disk_rate(text) for text in _DISKS)
    ample = _MEMORY_MIB[1:]

    def request(
        network: str,
        *tasks: Task,
        accelerator: Accelerator = _EMULATED_T4,
        vcpus: tuple[float, ...] = _VCPUS,
        memory_mib: tuple[float, ...] = ample,
        disks: tuple[DiskRate, ...] = (fast,),
        batch_size: int = 32,
    ) -> SweepRequest:
        return SweepRequest(
            networks=(network,),
            tasks=tasks,
            vcpus=vcpus,
            memory_mib=memory_mib,
            disks=disks,
            accelerator=accelerator,
            data=data,
            batch_sizes=(batch_size,),
            max_seconds=_MAX_SECONDS,
        )

    inference, training = Task.INFERENCE, Task.TRAINING
    return [
        request("googlenet", inference, memory_mib=_MEMORY_MIB),
        request("googlenet", inference, memory_mib=_MEMORY_MIB[:1], disks=(slow,)),
        request("alexnet", inference, accelerator=ON_CPU, memory_mib=_MEMORY_MIB, batch_size=16),
        request("resnet50", training, inference),
        request("googlenet", Task.PREPROCESSING, memory_mib=_MEMORY_MIB, disks=(slow,)),
        request("alexnet", training, accelerator=ON_CPU, vcpus=(2.0,), batch_size=16),
        request("googlenet", inference, vcpus=(1.0,), memory_mib=(_TOO_LITTLE_MEMORY_MIB,)),
    ]
