"""The limits of a trial, and the contract of every limiter."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from advisor.domain import LimitedBy, Resources
from advisor.sweeps.trial.limits.usage import PROCESS_TREE


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
    """Limits around the processes of one trial; by itself it holds nothing.

    Rules: `add` comes first and counts what a process and all its later children use. Libraries and network
    are loaded without a limit; `limit_memory` then reclaims the page cache of theirs that does not fit, and
    must come before the data set is read: the kernel keeps mapped libraries and drops data that was read
    once. `engage` switches the CPU and disk limits on. All may raise OSError, `limit_memory` also
    `MemoryError` (more is taken than is asked for); then nothing is held.
    """

    means = LimitedBy.NONE

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
        """The source from which `advisor.sweeps.trial.limits.usage.read_usage` reads the usage of held
        processes."""
        return {"kind": PROCESS_TREE}

    def killed_for_memory(self) -> bool:
        """Whether the kernel killed a held process for exceeding the memory limit."""
        return False


class Limiter(Protocol):
    """One way to limit. `hold` leaves no group and no process behind, however it is left."""

    def hold(self, request: LimitRequest) -> AbstractContextManager[ResourceLimits]:
        """Prepare limits for one trial."""
