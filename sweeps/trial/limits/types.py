"""What is asked of a limiter, and what every limiter promises."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from advisor.domain import LimitedBy, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """What one trial may use. `memory_mib` counts page cache; `device` is the MAJOR:MINOR of
    the block device behind the data set (None: unknown); None as a rate means not limited."""

    vcpus: float
    memory_mib: float
    cpus: tuple[int, ...]
    read_mib_per_second: float | None = None
    read_iops: float | None = None
    device: str | None = None

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
    )


class ResourceLimits(Protocol):
    """Limits around the processes of one trial.

    Rules: `add` comes first and puts the memory limit (and accounting) around a process and
    all its later children; `engage` then switches the CPU and disk limits on, so that
    start-up runs at full speed; both may raise OSError, and then nothing is held.
    """

    @property
    def limited_by(self) -> LimitedBy:
        """What really holds the limits that were asked for."""

    def add(self, pid: int) -> None:
        """Hold this process and its future children."""

    def engage(self) -> None:
        """Switch the CPU and disk limits on."""

    def usage_source(self) -> Mapping[str, Any]:
        """Where `sweeps.trial.limits.usage.read_usage` finds what the held processes used."""

    def killed_for_memory(self) -> bool:
        """Whether the kernel killed a held process for exceeding the memory limit."""


class Limiter(Protocol):
    """One way to limit. `hold` leaves no group and no process behind, however it is left."""

    def hold(self, request: LimitRequest) -> AbstractContextManager[ResourceLimits]:
        """Prepare limits for one trial."""
