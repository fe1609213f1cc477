"""Limits by cgroup version 2: one group with all controllers.

Kernel documentation: admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from advisor.domain import MIB, LimitedBy
from sweeps.trial.limits.hierarchies import remove_group
from sweeps.trial.limits.types import LimitRequest
from sweeps.trial.limits.usage import read_fields
from sweeps.trial.ownership import new_name

PERIOD_MICROSECONDS = 100_000
CONTROLLERS = frozenset({"cpu", "cpuset", "memory", "io"})


def usable_parent(candidates: list[Path]) -> Path | None:
    """The first directory whose children have all controllers, switching them on if allowed."""
    for parent in candidates:
        missing = CONTROLLERS - _handed_down(parent)
        if missing and missing <= _names(parent / "cgroup.controllers"):
            # Refused (EBUSY) where processes live in the parent itself; then the next one.
            with suppress(OSError):
                text = " ".join(f"+{name}" for name in sorted(missing))
                (parent / "cgroup.subtree_control").write_text(text)
        if _handed_down(parent) >= CONTROLLERS:
            return parent
    return None


class CgroupV2:
    """Makes one group beneath `parent`, whose children have all controllers."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[CgroupV2Hold]:
        """A group that is gone, with its processes, when the context is left."""
        group = self._parent / new_name()
        group.mkdir()
        try:
            yield CgroupV2Hold(group, request)
        finally:
            remove_group(group)


class CgroupV2Hold:
    """See `sweeps.trial.limits.types.ResourceLimits`."""

    def __init__(self, group: Path, request: LimitRequest) -> None:
        self._group = group
        self._request = request
        self._write("memory.max", int(request.memory_mib * MIB))
        if (group / "memory.swap.max").exists():
            self._write("memory.swap.max", 0)

    @property
    def limited_by(self) -> LimitedBy:
        """`none` when a disk limit is asked for and no block device is known to bear it."""
        if self._request.limits_disk and self._request.device is None:
            return LimitedBy.NONE
        return LimitedBy.CGROUP_V2

    def add(self, pid: int) -> None:
        """Move the process into the group; memory is limited from here on."""
        self._write("cgroup.procs", pid)

    def engage(self) -> None:
        """Pin to the CPUs, set the quota, throttle reads of the device."""
        request = self._request
        self._write("cpuset.cpus", ",".join(map(str, request.cpus)))
        if request.vcpus < len(request.cpus):
            quota = int(request.vcpus * PERIOD_MICROSECONDS)
            self._write("cpu.max", f"{quota} {PERIOD_MICROSECONDS}")
        if request.device and request.limits_disk:
            self._write("io.max", f"{request.device} {_io_limits(request)}")

    def usage_source(self) -> Mapping[str, Any]:
        """The group's directory."""
        return {"kind": LimitedBy.CGROUP_V2.value, "group": str(self._group)}

    def killed_for_memory(self) -> bool:
        """The kernel counts the kills of a group in memory.events."""
        return int(read_fields(self._group / "memory.events").get("oom_kill", 0)) > 0

    def _write(self, file: str, value: object) -> None:
        (self._group / file).write_text(str(value))


def _io_limits(request: LimitRequest) -> str:
    limits = []
    if request.read_mib_per_second is not None:
        limits.append(f"rbps={int(request.read_mib_per_second * MIB)}")
    if request.read_iops is not None:
        limits.append(f"riops={int(request.read_iops)}")
    return " ".join(limits)


def _handed_down(parent: Path) -> set[str]:
    return _names(parent / "cgroup.subtree_control")


def _names(path: Path) -> set[str]:
    try:
        return set(path.read_text().split())
    except OSError:
        return set()
