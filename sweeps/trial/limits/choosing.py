"""Chooses the limiter and the CPUs that this machine offers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from advisor.sweeps.machine.cgroups import V1_CONTROLLERS, v1_groups, v2_group
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.trial.limits.cgroup_v1 import CgroupV1
from advisor.sweeps.trial.limits.cgroup_v2 import CgroupV2
from advisor.sweeps.trial.limits.delegation import delegated_parent
from advisor.sweeps.trial.limits.types import Limiter, LimitRequest
from advisor.sweeps.trial.limits.without_cgroups import Affinity, Unlimited, WholeMachine

_ALL_MEMORY_SHARE = 0.9
_CPUS = Path("/sys/devices/system/cpu")


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


def read_cores(cpus: Iterable[int], root: Path = _CPUS) -> dict[int, tuple[str, int]]:
    """CPU number to physical core (its package and first thread), from sysfs; each CPU its own
    core where that is silent. (`core_id` may come twice in a package of several dies.)"""
    cores: dict[int, tuple[str, int]] = {}
    for cpu in cpus:
        topology = root / f"cpu{cpu}" / "topology"
        try:
            package = (topology / "physical_package_id").read_text().strip()
            siblings = (topology / "thread_siblings_list").read_text()
            cores[cpu] = (package, int(re.split("[,-]", siblings)[0]))
        except (OSError, ValueError):
            cores[cpu] = ("", cpu)
    return cores
