"""What a node has for trials: physical cores and GPUs, each with its NUMA node.

CPUs are read from sysfs (kernel: ABI/stable/sysfs-devices-system-cpu, -node), GPUs by NVML.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import MeasuringError
from sweeps.machine.gpu import gpus
from sweeps.machine.size import machine_size
from sweeps.trial.limits.choosing import read_cores

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core: the hardware threads of it that may be used. `number` is its first thread
    on the host; `numa_node` is None where the kernel names none."""

    number: int
    cpus: tuple[int, ...]
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU, or a MIG slice of one, by the name that CUDA_VISIBLE_DEVICES takes."""

    uuid: str
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """What trials may be placed on; GPUs in the driver's order."""

    cores: tuple[Core, ...]
    gpus: tuple[GpuDevice, ...] = ()
    memory_mib: float = math.inf


def read_node() -> Node:
    """This machine, as far as this process may use it."""
    size = machine_size()
    return Node(cores_of(size.cpus), read_gpus(), size.memory_mib)


def cores_of(cpus: Iterable[int], root: Path = _CPUS) -> tuple[Core, ...]:
    """The physical cores of the CPUs."""
    threads: dict[int, list[int]] = {}
    for cpu, (_, first) in read_cores(cpus, root).items():
        threads.setdefault(first, []).append(cpu)
    return tuple(
        Core(first, tuple(sorted(members)), _node_of_cpu(root / f"cpu{first}"))
        for first, members in threads.items()
    )


def read_gpus() -> tuple[GpuDevice, ...]:
    """Those that CUDA_VISIBLE_DEVICES leaves (Ray sets it for a task; a user may). As the CUDA
    programming guide has it, the first entry that names nothing ends the list. Numbers count
    GPUs in the order of their PCI addresses (CUDA_DEVICE_ORDER=PCI_BUS_ID)."""
    try:
        known = gpus()
    except MeasuringError:
        return ()
    whole = [GpuDevice(str(facts["uuid"]), facts["numa_node"]) for facts in known]
    if VISIBLE_GPUS not in os.environ:
        return tuple(whole)
    slices = [
        GpuDevice(str(one["uuid"]), facts["numa_node"])
        for facts in known
        for one in facts["mig_slices"]
    ]
    visible: list[GpuDevice] = []
    for entry in map(str.strip, os.environ[VISIBLE_GPUS].split(",")):
        by_number = whole[int(entry) :][:1] if entry.isdecimal() else []
        by_name = [one for one in (*whole, *slices) if entry and one.uuid.startswith(entry)]
        if len(found := by_number or by_name) != 1 or found[0] in visible:
            break
        visible += found
    return tuple(visible)


def _node_of_cpu(cpu: Path) -> int | None:
    return next((int(node.name[4:]) for node in cpu.glob("node[0-9]*")), None)
