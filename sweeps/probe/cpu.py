"""The part `cpu` of a probe: facts and topology from /proc, sysfs and the cgroups; nothing is timed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from advisor.sweeps.machine import environment
from advisor.sweeps.machine.mounts import text_of
from advisor.sweeps.probe.session import Document, ProbeSession, skipped

_NODES = Path("/sys/devices/system/node")


def threads_first_by_core(cores: Mapping[int, object]) -> list[int]:
    """The CPUs in an order with the first hardware thread of every core before any second thread.

    `cores` has the physical core of each CPU."""
    seen: dict[object, int] = {}
    ranked = []
    for cpu in sorted(cores):
        rank = seen.get(cores[cpu], 0)
        seen[cores[cpu]] = rank + 1
        ranked.append((rank, cpu))
    return [cpu for _, cpu in sorted(ranked)]


def thread_counts(cores: int, threads: int) -> list[int]:
    """Thread counts to measure: the powers of 2, the number of cores, and all hardware threads."""
    powers = {2**power for power in range(threads.bit_length()) if 2**power <= threads}
    return sorted(powers | {min(cores, threads), threads})


def read_numa_nodes(root: Path = _NODES) -> list[dict[str, object]]:
    """CPUs and memory of each NUMA node; empty if the kernel lists none."""
    nodes: list[dict[str, object]] = []
    for node in sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        try:
            cpus, meminfo = (node / "cpulist").read_text().strip(), (node / "meminfo").read_text()
            kib = int(re.findall(r"MemTotal:\s+(\d+)", meminfo)[0])  # 'Node 0 MemTotal: 24684084 kB'
            nodes.append({"node": int(node.name[4:]), "cpus": cpus, "memory_mib": kib / 1024})
        except (OSError, ValueError, IndexError):
            continue
    return nodes


_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")


def probe(_session: ProbeSession) -> Document:
    """Model, cores, hardware threads, caches and NUMA nodes, and the part that this process may use."""
    cpus = environment.allowed_cpus()
    cores = environment.read_cores(cpus)
    machine, frequency = environment.describe_machine(), text_of(_FREQUENCY / "cpuinfo_max_freq")
    seen = {cache for cpu in cpus for cache in environment.read_caches(cpu)}
    shapes = Counter((entry.level, entry.kind, entry.size_kib, len(entry.shared_by)) for entry in seen)
    caches = [
        dict(zip(("level", "kind", "size_kib", "cpus_sharing", "count"), (*shape, count), strict=True))
        for shape, count in sorted(shapes.items())
    ]
    return {
        "model": machine["cpu_model"],
        "architecture": machine["architecture"],
        "sockets": len({package for package, _ in cores.values()}),
        "physical_cores": machine["physical_cores"],
        "logical_cpus": machine["cpus"],
        "threads_per_core": machine["cpus"] / machine["physical_cores"],
        "usable_cpus": len(cpus),
        "usable_cores": len(set(cores.values())),
        "cpu_quota": machine["cpu_quota"],
        "flags": machine["cpu_flags"],
        "max_frequency_mhz": int(frequency) / 1000
        if frequency
        else skipped("the kernel reports no frequencies (usual in a virtual machine)"),
        "caches": caches or skipped("sysfs describes no caches"),
        "numa_nodes": read_numa_nodes() or skipped("the kernel names no NUMA nodes"),
        "memory_mib": machine["memory_mib"],
        "memory_limit_mib": machine["memory_limit_mib"],
        "usable_memory_mib": environment.free_memory_bytes() / 2**20,
    }
