"""The limits of a trial, the contract of everything that holds them, and limits without cgroups."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from advisor.domain import MIB, LimitedBy, Resources
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.trial.limits.usage import PROCESS_TREE, read_fields

_ALL_MEMORY_SHARE = 0.9


class LimitRequest(Struct, frozen=True, kw_only=True):
    """The resources that one trial may use. `memory_mib` counts page cache; `device` is the MAJOR:MINOR
    of the block device behind the data set (None: unknown); None as a rate means no limit. `processes` of
    them compute, each with a GPU of its own."""

    vcpus: float
    memory_mib: float
    cpus: tuple[int, ...]
    read_mib_per_second: float | None = None
    read_iops: float | None = None
    device: str | None = None
    processes: int = 1

    @property
    def is_fraction(self) -> bool:
        """Whether the CPUs have to be shared by time."""
        return self.vcpus < len(self.cpus)

    @property
    def limits_disk(self) -> bool:
        """Whether a disk rate or IOPS limit is asked for."""
        return self.read_mib_per_second is not None or self.read_iops is not None

    @property
    def wants_whole_machine(self) -> bool:
        """All CPUs (of a container: its quota), at least nine tenths of the memory, and the disk as it is."""
        size = machine_size()
        whole = self.vcpus == size.vcpus and self.memory_mib >= _ALL_MEMORY_SHARE * size.memory_mib
        return whole and not self.limits_disk


def request_for(resources: Resources, cpus: tuple[int, ...], device: str | None) -> LimitRequest:
    """The request that makes `cpus` and a device look like `resources`."""
    return LimitRequest(
        vcpus=resources.vcpus,
        memory_mib=resources.memory_mib,
        cpus=cpus,
        read_mib_per_second=resources.disk.read_mib_per_second,
        read_iops=resources.disk.read_iops,
        device=device,
        processes=resources.gpu_count,
    )


# What holds a limit: the trial's own cgroup, CPU affinity, RLIMIT_DATA (private memory alone), or
# the machine itself, which has no more.
GROUP, AFFINITY, RLIMIT, MACHINE = "cgroup", "affinity", "rlimit", "machine"
# `vcpus`, `memory`, and `disk` where a rate is asked for; None: not held.
Held = dict[str, str | None]


class ResourceLimits:
    """Limits around the processes of one trial, taken away on leaving `with`; by itself it holds nothing, and
    the measurement says so.

    Rules: `add` comes first and counts what a process and all its later children use. Libraries and network
    are loaded without a limit; `limit_memory` then reclaims the page cache of theirs that does not fit, and
    must come before the data set is read: the kernel keeps mapped libraries and drops data that was read
    once. `engage` switches the CPU and disk limits on. All may raise OSError, `limit_memory` also
    `MemoryError` (more is taken than is asked for); then nothing is held. No group and no process is left
    behind, however the block ends."""

    means = LimitedBy.NONE

    def __init__(self, request: LimitRequest) -> None:
        self._request = request

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing was made."""

    @property
    def held(self) -> Held:
        """The mechanism that holds each limit of the request."""
        return {"vcpus": None, "memory": None}

    @property
    def limited_by(self) -> LimitedBy:
        """The mechanism that really holds the limits of the request: `none` as soon as one is not held."""
        return LimitedBy.NONE if None in self.held.values() else self.means

    def add(self, pid: int) -> None:
        """Hold this process and its future children."""

    def limit_memory(self) -> None:
        """Switch the memory limit on."""

    def engage(self) -> None:
        """Switch the CPU and disk limits on."""

    def usage_source(self) -> Mapping[str, Any]:
        """The source from which `usage.read_usage` reads the usage of held processes."""
        return {"kind": PROCESS_TREE}

    def killed_for_memory(self) -> bool:
        """Whether the kernel killed a held process for exceeding the memory limit."""
        return False


class Affinity(ResourceLimits):
    """Holds whole vCPUs by CPU affinity and private memory by RLIMIT_DATA; both go with the process.

    Page cache is not held. When a disk rate or a fraction of a vCPU is asked for, several processes compute
    (nothing adds up what they take), or one has more memory mapped than its limit, it says `none`, and the
    measurement is never fitted."""

    means = LimitedBy.AFFINITY

    def __init__(self, request: LimitRequest) -> None:
        super().__init__(request)
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
        """Pin the process before it starts threads, which inherit that."""
        self._pids.append(pid)
        os.sched_setaffinity(pid, self._request.cpus)

    def limit_memory(self) -> None:
        """Private memory only, of the processes and their later children: beyond it an allocation fails.

        The kernel compares RLIMIT_DATA with what is mapped, used or not. Where that is above the limit
        already, the next allocation would fail whatever is in use: nothing is held then."""
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


class WholeMachine(ResourceLimits):
    """For trials that ask for the whole machine, which holds them by itself. Under a quota the process is
    pinned: eight vCPUs are eight hardware threads, not a twelfth of 96."""

    means = LimitedBy.HOST

    @property
    def held(self) -> Held:
        """All by the machine."""
        return {"vcpus": MACHINE, "memory": MACHINE}

    def add(self, pid: int) -> None:
        """Pin the process where CPUs are given."""
        if self._request.cpus:
            os.sched_setaffinity(pid, self._request.cpus)
