"""Chooses a trial's cores and GPUs among the free ones; pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from advisor.sweeps.trial.placement.node import Core, GpuDevice


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

    Whole cores, the threads of one together, as clouds sell them; those of the GPU's NUMA node
    first. The last cores of a node come first: interrupts and other people's work tend to sit on
    the first ones.
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
