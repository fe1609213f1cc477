"""The physical cores and GPUs of a node, each with its NUMA node, and the choice of a trial's.

CPUs are read from sysfs (kernel: ABI/stable/sysfs-devices-system-cpu, -node), GPUs by NVML.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.sweeps.machine.gpu import gpus
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.trial.limits.choosing import read_cores


class Placement(Struct, frozen=True):
    """`cpus` are the CPUs of a trial, `cores` all whose threads it keeps from others."""

    cpus: tuple[int, ...]
    cores: tuple[Core, ...] = ()
    gpus: tuple[GpuDevice, ...] = ()

    @property
    def gpu(self) -> GpuDevice | None:
        """The first one."""
        return self.gpus[0] if self.gpus else None

    @property
    def numa_node(self) -> int | None:
        """The one NUMA node of all CPUs; None where they are of several, or it is not known."""
        nodes = {core.numa_node for core in self.cores}
        return nodes.pop() if len(nodes) == 1 else None

    @property
    def gpu_is_near(self) -> bool | None:
        """Whether the GPUs hang on the CPUs' NUMA node; None where that is not known."""
        near = {gpu.numa_node for gpu in self.gpus}
        nodes = {core.numa_node for core in self.cores}
        return None if not near or None in near | nodes else nodes == near


def wanted_cpus(vcpus: float) -> int:
    """CPUs that carry so many vCPUs: a fraction of one is a quota on a whole one."""
    return max(1, math.ceil(vcpus))


def placement_of(
    vcpus: float, cores: Iterable[Core], gpus: Sequence[GpuDevice] | None = None, gpu_count: int = 1
) -> Placement | None:
    """CPUs, and so many of `gpus` where given, of what is free; None where that is not enough.

    Whole cores, the threads of one together, as clouds sell them; those of the GPU's NUMA node first. The
    last cores of a node come first: interrupts and other people's work tend to sit on the first ones.
    """
    wanted, nodes = wanted_cpus(vcpus), defaultdict[int | None, list[Core]](list)
    for core in cores:
        nodes[core.numa_node].append(core)
    threads = {node: sum(len(core.cpus) for core in has) for node, has in nodes.items()}
    if sum(threads.values()) < wanted or (gpus is not None and len(gpus) < gpu_count):
        return None

    def room(gpu: GpuDevice) -> int:
        return min(threads.get(gpu.numa_node, 0), wanted)

    # GPUs whose own node has room; of several those with most room, then the first.
    taken = tuple(sorted(gpus or (), key=room, reverse=True)[:gpu_count])
    chosen = _cores(wanted, nodes, threads, taken[0] if taken else None)
    cpus = [cpu for core in chosen for cpu in core.cpus][:wanted]
    return Placement(tuple(sorted(cpus)), tuple(chosen), taken)


def _cores(
    wanted: int, nodes: dict[int | None, list[Core]], threads: dict[int | None, int], gpu: GpuDevice | None
) -> list[Core]:
    """The GPU's node; else the fullest one that holds all; else as few nodes as will do."""

    def rank(node: int | None) -> tuple[bool, bool, int]:
        holds = threads[node] >= wanted
        near = gpu is not None and node == gpu.numa_node
        return not near, not holds, threads[node] if holds else -threads[node]

    ordered = [
        core
        for node in sorted(nodes, key=rank)
        for core in sorted(nodes[node], key=lambda core: core.number, reverse=True)
    ]
    chosen: list[Core] = []
    while sum(len(core.cpus) for core in chosen) < wanted:
        chosen.append(ordered[len(chosen)])
    return chosen


VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_CPUS = Path("/sys/devices/system/cpu")


class Core(Struct, frozen=True):
    """A physical core: the hardware threads of it that may be used. `number` is its first thread
    on the host; `numa_node` is None where the kernel names none."""

    number: int
    cpus: tuple[int, ...]
    numa_node: int | None = None


class GpuDevice(Struct, frozen=True):
    """A GPU, or a MIG slice of one, by the name that CUDA_VISIBLE_DEVICES takes."""

    uuid: str
    numa_node: int | None = None


class Node(Struct, frozen=True):
    """The resources of a node on which trials may be placed; GPUs in the driver's order."""

    cores: tuple[Core, ...]
    gpus: tuple[GpuDevice, ...] = ()
    memory_mib: float = math.inf


def read_node(*, with_gpus: bool = True) -> Node:
    """This machine, as far as this process may use it; `MeasuringError` as `read_gpus`."""
    size = machine_size()
    return Node(cores_of(size.cpus), read_gpus() if with_gpus else (), size.memory_mib)


def cores_of(cpus: Iterable[int], root: Path = _CPUS) -> tuple[Core, ...]:
    """The physical cores of the CPUs."""
    threads: dict[int, list[int]] = {}
    for cpu, (_, first) in read_cores(cpus, root).items():
        threads.setdefault(first, []).append(cpu)
    nodes = {
        first: int(node.name[4:]) for first in threads for node in (root / f"cpu{first}").glob("node[0-9]*")
    }
    return tuple(Core(first, tuple(sorted(members)), nodes.get(first)) for first, members in threads.items())


def read_gpus() -> tuple[GpuDevice, ...]:
    """GPUs, and in place of one that is cut the slices of it (MIG): CUDA computes on these alone.

    Those that CUDA_VISIBLE_DEVICES leaves (Ray sets it for a task; a user may). As the CUDA
    programming guide has it, the first entry that names nothing ends the list. Numbers are those
    of PCI addresses; `MeasuringError` where CUDA would count another way.
    """
    try:
        known = gpus()
    except MeasuringError:
        return ()
    of_card = [_devices(facts) for facts in known]
    every = [device for devices in of_card for device in devices]
    if VISIBLE_GPUS not in os.environ:
        return tuple(every)
    visible: list[GpuDevice] = []
    for entry in map(str.strip, os.environ[VISIBLE_GPUS].split(",")):
        if entry.isdecimal():
            _refuse_other_order({facts["name"] for facts in known})
            cards = next(iter(of_card[int(entry) :]), [])
        else:
            cards = [card for card in every if entry and card.uuid.startswith(entry)]
        if len(cards) != 1 or cards[0] in visible:
            break
        visible += cards
    return tuple(visible)


def _devices(card: Mapping[str, Any]) -> list[GpuDevice]:
    """CUDA devices of a card; those without a UUID to name them by are left out."""
    parts = card["mig_slices"] if card["mig_mode"] == "Enabled" else [card]
    return [GpuDevice(part["uuid"], card["numa_node"]) for part in parts if part["uuid"]]


def _refuse_other_order(models: Collection[str]) -> None:
    """CUDA numbers GPUs by speed unless it is set otherwise; by address where all are alike."""
    if len(models) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise MeasuringError(
            "CUDA_VISIBLE_DEVICES has numbers, and the GPUs of this machine differ",
            hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by UUID",
        )
