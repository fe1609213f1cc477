"""The limits of a trial, the interface of all mechanisms that hold them, and mechanisms without cgroups."""

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
    """The resources that one trial may use. `memory_mib` includes page cache. `device` is the MAJOR:MINOR of
    the data set's block device (None: unknown). A rate of None means no limit. `processes` is the number of
    computing processes, each with a GPU."""

    vcpus: float
    memory_mib: float
    cpus: tuple[int, ...]
    read_mib_per_second: float | None = None
    read_iops: float | None = None
    device: str | None = None
    processes: int = 1

    @property
    def is_fraction(self) -> bool:
        """Whether a quota has to limit the time on the CPUs."""
        return self.vcpus < len(self.cpus)

    @property
    def limits_disk(self) -> bool:
        """Whether the disk's rate or IOPS are limited."""
        return self.read_mib_per_second is not None or self.read_iops is not None

    @property
    def wants_whole_machine(self) -> bool:
        """Whether it is for all CPUs (or a container's quota), 90 % of the memory, and an unlimited disk."""
        size = machine_size()
        whole = self.vcpus == size.vcpus and self.memory_mib >= _ALL_MEMORY_SHARE * size.memory_mib
        return whole and not self.limits_disk


def request_for(resources: Resources, cpus: tuple[int, ...], device: str | None) -> LimitRequest:
    """The request that limits `cpus` and a device to `resources`."""
    return LimitRequest(
        vcpus=resources.vcpus,
        memory_mib=resources.memory_mib,
        cpus=cpus,
        read_mib_per_second=resources.disk.read_mib_per_second,
        read_iops=resources.disk.read_iops,
        device=device,
        processes=resources.gpu_count,
    )


# Mechanisms that hold a limit: the trial's cgroup, CPU affinity, RLIMIT_DATA (private memory only), or the
# size of the machine.
GROUP, AFFINITY, RLIMIT, MACHINE = "cgroup", "affinity", "rlimit", "machine"
# The mechanism for `vcpus`, `memory` and, if it is limited, `disk`; None: not held.
Held = dict[str, str | None]


class ResourceLimits:
    """Limits on the processes of one trial inside a `with` block. This base class holds no limit, and the
    measurement records that.

    Rules: `add` comes first, and counts the use of a process and all its later children. Libraries and
    network are loaded without a limit. `limit_memory` then reclaims their page cache that does not fit; it
    must come before the data set is read, since the kernel keeps mapped libraries and drops data that was
    read once. `engage` switches the CPU and disk limits on. All may raise OSError, `limit_memory` also
    `MemoryError` (if more is in use than the limit); then nothing is held. No group and no process is left
    after the block."""

    means = LimitedBy.NONE

    def __init__(self, request: LimitRequest) -> None:
        self._request = request

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing: no group was made."""

    @property
    def held(self) -> Held:
        """The mechanism that holds each limit of the request."""
        return {"vcpus": None, "memory": None}

    @property
    def limited_by(self) -> LimitedBy:
        """The mechanism that holds the limits of the request; `none` if any limit is not held."""
        return LimitedBy.NONE if None in self.held.values() else self.means

    def add(self, pid: int) -> None:
        """Apply the limits to a process and its future children."""

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
    """Holds whole vCPUs by CPU affinity and private memory by RLIMIT_DATA, which end with the process.

    Page cache is not limited. With a disk rate, a fraction of a vCPU, several computing processes (whose use
    nothing adds up), or a process that has mapped more memory than its limit, `limited_by` is `none`, and the
    measurement is never fitted."""

    means = LimitedBy.AFFINITY

    def __init__(self, request: LimitRequest) -> None:
        super().__init__(request)
        self._pids: list[int] = []
        self._bears_rlimit = request.processes == 1

    @property
    def held(self) -> Held:
        """What holds each limit; a fraction of a CPU is held only if it is the container's quota."""
        request = self._request
        whole = not request.is_fraction or request.vcpus == machine_size().vcpus
        held: Held = {"vcpus": AFFINITY if whole else None, "memory": RLIMIT if self._bears_rlimit else None}
        return held | {"disk": None} if request.limits_disk else held

    def add(self, pid: int) -> None:
        """Pin the process, before it starts threads, which inherit the affinity."""
        self._pids.append(pid)
        os.sched_setaffinity(pid, self._request.cpus)

    def limit_memory(self) -> None:
        """Limit the private memory of the processes and their later children; beyond it allocations fail.

        The kernel compares RLIMIT_DATA with mapped memory, used or not. If a process has already mapped more
        than the limit, its next allocation would fail whatever it uses, so no limit is set."""
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
    """The MiB in a field like '1234 kB'; 0 for a process that has ended."""
    return int(status.get(name, "0 kB").split()[0]) / 1024


class WholeMachine(ResourceLimits):
    """No limits, for trials that request the whole machine. Under a container's quota the process is pinned:
    eight vCPUs are eight hardware threads, not a twelfth of 96."""

    means = LimitedBy.HOST

    @property
    def held(self) -> Held:
        """The machine holds all limits."""
        return {"vcpus": MACHINE, "memory": MACHINE}

    def add(self, pid: int) -> None:
        """Pin the process if the request has CPUs."""
        if self._request.cpus:
            os.sched_setaffinity(pid, self._request.cpus)
