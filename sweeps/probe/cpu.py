"""The part `cpu`: facts from /proc, sysfs and the cgroups; nothing is timed."""

from __future__ import annotations

from pathlib import Path

from advisor.sweeps.machine.caches import distinct_caches
from advisor.sweeps.machine.environment import describe_machine
from advisor.sweeps.machine.size import allowed_cpus, free_memory_bytes
from advisor.sweeps.probe.figures import Document, skipped
from advisor.sweeps.probe.session import ProbeSession
from advisor.sweeps.probe.topology import read_numa_nodes
from advisor.sweeps.trial.limits.choosing import read_cores

_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")


def probe(_session: ProbeSession) -> Document:
    """Model, cores, hardware threads, caches, NUMA nodes, and what this process may use."""
    cpus = allowed_cpus()
    cores = read_cores(cpus)
    machine = describe_machine()
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
        "max_frequency_mhz": _max_frequency_mhz(),
        "caches": _caches(cpus),
        "numa_nodes": read_numa_nodes() or skipped("the kernel names no NUMA nodes"),
        "memory_mib": machine["memory_mib"],
        "memory_limit_mib": machine["memory_limit_mib"],
        "usable_memory_mib": free_memory_bytes() / 2**20,
    }


def _caches(cpus: list[int]) -> object:
    result = [
        {
            "level": cache.level,
            "kind": cache.kind,
            "size_kib": cache.size_kib,
            "count": count,
            "cpus_sharing": len(cache.shared_by),
        }
        for cache, count in distinct_caches(cpus).items()
    ]
    return result or skipped("sysfs describes no caches")


def _max_frequency_mhz() -> object:
    try:
        return int((_FREQUENCY / "cpuinfo_max_freq").read_text()) / 1000
    except (OSError, ValueError):
        return skipped("the kernel reports no frequencies (usual in a virtual machine)")
