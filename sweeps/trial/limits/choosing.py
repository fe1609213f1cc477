"""Which limiter, which CPUs, which block device: decisions on what this machine offers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sweeps.machine.cgroups import V1_CONTROLLERS, v1_groups, v2_group
from sweeps.machine.size import machine_size
from sweeps.trial.limits.cgroup_v1 import CgroupV1
from sweeps.trial.limits.cgroup_v2 import CgroupV2
from sweeps.trial.limits.delegation import delegated_parent
from sweeps.trial.limits.types import Limiter, LimitRequest
from sweeps.trial.limits.without_cgroups import Affinity, Unlimited, WholeMachine

_ALL_MEMORY_SHARE = 0.9


def choose_limiter(request: LimitRequest) -> Limiter:
    """The strongest limiter this machine has; none where the whole machine is asked for."""
    if asks_for_whole_machine(request):
        return WholeMachine()
    if not sys.platform.startswith("linux"):
        return Unlimited()
    groups = v1_groups()
    if set(groups) == set(V1_CONTROLLERS) and all(map(_is_writable, groups.values())):
        return CgroupV1(groups)
    parent = delegated_parent(v2_group())
    return CgroupV2(parent) if parent else Affinity()


def _is_writable(group: Path) -> bool:
    return group.is_dir() and os.access(group, os.W_OK)


def asks_for_whole_machine(request: LimitRequest) -> bool:
    """All CPUs (of a container: its quota), at least nine tenths of the memory, and the disk as it
    is."""
    size = machine_size()
    return (
        request.vcpus == size.vcpus
        and request.memory_mib >= _ALL_MEMORY_SHARE * size.memory_mib
        and not request.limits_disk
    )


def choose_cpus(vcpus: float, cores: Mapping[int, object]) -> tuple[int, ...]:
    """CPUs for a trial, hardware threads of one core together, as clouds sell them.

    `cores` names the physical core of each CPU. The last cores come first: interrupts and
    other people's work tend to sit on the first ones.
    """
    wanted = max(1, -int(-vcpus // 1))
    members: dict[object, list[int]] = {}
    for cpu, core in cores.items():
        members.setdefault(core, []).append(cpu)
    by_core = sorted(members.values(), key=min, reverse=True)
    chosen = [cpu for threads in by_core for cpu in sorted(threads)][:wanted]
    return tuple(sorted(chosen))


def read_cores(cpus: list[int]) -> dict[int, object]:
    """CPU number to physical core, from sysfs; each CPU its own core where that is silent."""
    cores: dict[int, object] = {}
    for cpu in cpus:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            package = (topology / "physical_package_id").read_text().strip()
            cores[cpu] = (package, (topology / "core_id").read_text().strip())
        except OSError:
            cores[cpu] = cpu
    return cores
