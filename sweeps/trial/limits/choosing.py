"""Chooses the limiter and the CPUs that this machine offers; limits where there are no cgroups."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from advisor.domain import MIB, LimitedBy
from advisor.sweeps.machine.cgroups import V1_CONTROLLERS, v1_groups, v2_group
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.trial.limits.groups import CgroupV1, CgroupV2, delegated_parent
from advisor.sweeps.trial.limits.types import (
    AFFINITY,
    MACHINE,
    RLIMIT,
    Held,
    Limiter,
    LimitRequest,
    ResourceLimits,
)
from advisor.sweeps.trial.limits.usage import read_fields


class Affinity:
    """Holds whole vCPUs by CPU affinity and private memory by RLIMIT_DATA.

    Page cache is not held. When a disk rate or a fraction of a vCPU is asked for, several processes
    compute (nothing adds up what they take), or one has more memory mapped than its limit, the
    hold says `none`, and the measurement is never fitted.
    """

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[AffinityHold]:
        """Nothing is left behind: affinity and limits go with the process."""
        yield AffinityHold(request)


class AffinityHold(ResourceLimits):
    """Affinity set before threads start is inherited by them, so CPUs are pinned in `add` already."""

    means = LimitedBy.AFFINITY

    def __init__(self, request: LimitRequest) -> None:
        self._request = request
        self._pids: list[int] = []
        self._bears_rlimit = request.processes == 1

    @property
    def held(self) -> Held:
        """A fraction of a CPU only where it is the quota of the container itself."""
        request = self._request
        whole = not request.is_fraction or request.vcpus == machine_size().vcpus
        held: Held = {"vcpus": AFFINITY if whole else None, "memory": RLIMIT if self._bears_rlimit else None}
        return held | {"disk": None} if request.limits_disk else held

    def add(self, pid: int) -> None:
        """Pin the process."""
        self._pids.append(pid)
        os.sched_setaffinity(pid, self._request.cpus)

    def limit_memory(self) -> None:
        """Private memory only, of the processes and their later children: beyond it an allocation fails.

        The kernel compares RLIMIT_DATA with what is mapped, used or not. Where that is above the
        limit already, the next allocation would fail whatever is in use: nothing is held then.
        """
        memory_mib = self._request.memory_mib
        size = int(memory_mib * MIB)
        for pid in self._pids:
            status = read_fields(Path(f"/proc/{pid}/status"))
            if _mib(status, "RssAnon:") > memory_mib:
                raise MemoryError(f"more is in use than its limit of {memory_mib:g} MiB")
            if _mib(status, "VmData:") < memory_mib:
                resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))
            else:
                self._bears_rlimit = False


def _mib(status: Mapping[str, str], name: str) -> float:
    """MiB in a line '1234 kB'; 0 for a process that has ended, which holds no memory."""
    return int(status.get(name, "0 kB").split()[0]) / 1024


class WholeMachine:
    """For trials that ask for the whole machine, which holds them by itself."""

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[WholeMachineHold]:
        """Nothing is made."""
        yield WholeMachineHold(request.cpus)


class WholeMachineHold(ResourceLimits):
    """Under a quota the process is pinned: eight vCPUs are eight hardware threads, not a twelfth of 96."""

    means = LimitedBy.HOST

    def __init__(self, cpus: tuple[int, ...]) -> None:
        self._cpus = cpus

    @property
    def held(self) -> Held:
        """All by the machine."""
        return {"vcpus": MACHINE, "memory": MACHINE}

    def add(self, pid: int) -> None:
        """Pin the process where CPUs are given."""
        if self._cpus:
            os.sched_setaffinity(pid, self._cpus)


class Unlimited:
    """Asked for limits and not able to hold them: the measurement says so."""

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[ResourceLimits]:  # noqa: ARG002
        """Marks the trial; holds nothing."""
        yield ResourceLimits()


_ALL_MEMORY_SHARE = 0.9
_CPUS = Path("/sys/devices/system/cpu")


def choose_limiter(request: LimitRequest) -> Limiter:
    """The strongest limiter this machine has; none where the whole machine is asked for."""
    if asks_for_whole_machine(request):
        return WholeMachine()
    if not sys.platform.startswith("linux"):
        return Unlimited()
    groups = v1_groups()
    if set(groups) == set(V1_CONTROLLERS) and all(os.access(group, os.W_OK) for group in groups.values()):
        return CgroupV1(groups)
    parent = delegated_parent(v2_group())
    return CgroupV2(parent) if parent else Affinity()


def asks_for_whole_machine(request: LimitRequest) -> bool:
    """All CPUs (of a container: its quota), at least nine tenths of the memory, and the disk as it is."""
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
