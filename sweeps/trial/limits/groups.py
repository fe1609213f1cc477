"""Limits by cgroups. Version 1: a group in each of five hierarchies. Version 2: one group with whatever
controllers its parent hands down.

Kernel documentation: cgroup-v1/{memory,cpusets,blkio-controller}.rst, scheduler/sched-bwc.rst,
admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from advisor.domain import MIB, LimitedBy
from advisor.sweeps.trial.limits.delegation import handed_down
from advisor.sweeps.trial.limits.types import AFFINITY, GROUP, Held, LimitRequest, ResourceLimits
from advisor.sweeps.trial.limits.usage import read_fields, remove_group
from advisor.sweeps.trial.ownership import new_name

PERIOD_MICROSECONDS = 100_000
# A trial comes before what else runs on its CPUs: the largest that the kernel takes.
_SHARES, _WEIGHT = 262_144, 10_000


class CgroupV1:
    """Makes a group in each of `parents` (hierarchy name to directory) for one trial."""

    def __init__(self, parents: Mapping[str, Path]) -> None:
        self._parents = parents

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[CgroupV1Hold]:
        """Groups that are gone, with their processes, when the context is left."""
        name = new_name()
        with ExitStack() as stack:
            groups: dict[str, Path] = {}
            # Controllers may share a hierarchy (cpu,cpuacct): one directory, made once.
            for controller, parent in self._parents.items():
                group = parent / name
                if group not in groups.values():
                    group.mkdir()
                    stack.callback(remove_group, group)
                groups[controller] = group
            yield CgroupV1Hold(groups, self._parents["cpuset"], request)


class CgroupV1Hold(ResourceLimits):
    """A group in each hierarchy."""

    means = LimitedBy.CGROUP_V1

    def __init__(self, groups: Mapping[str, Path], cpuset: Path, request: LimitRequest) -> None:
        self._groups = groups
        self._request = request
        # A cpuset takes no process before it has CPUs and memory nodes.
        for file in ("cpuset.cpus", "cpuset.mems"):
            effective = f"cpuset.effective_{file.removeprefix('cpuset.')}"
            self._write("cpuset", file, (cpuset / effective).read_text().strip())

    @property
    def held(self) -> Held:
        """No disk rate where no block device is known to bear it."""
        held: Held = {"vcpus": GROUP, "memory": GROUP}
        if self._request.limits_disk:
            held["disk"] = GROUP if self._request.device else None
        return held

    def add(self, pid: int) -> None:
        """Move the process into all groups: what it takes from here on is counted."""
        for controller in self._groups:
            self._write(controller, "cgroup.procs", pid)

    def limit_memory(self) -> None:
        """Version 1 refuses a limit below what cannot be reclaimed, where version 2 kills."""
        memory_mib = self._request.memory_mib
        try:
            self._write("memory", "memory.limit_in_bytes", int(memory_mib * MIB))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise MemoryError(f"more is in use than its limit of {memory_mib:g} MiB") from error

    def engage(self) -> None:
        """Pin to the CPUs before all others, set the quota, throttle reads of the device."""
        request = self._request
        self._write("cpuset", "cpuset.cpus", ",".join(map(str, request.cpus)))
        self._write("cpu", "cpu.shares", _SHARES)
        if request.is_fraction:
            self._write("cpu", "cpu.cfs_period_us", PERIOD_MICROSECONDS)
            self._write("cpu", "cpu.cfs_quota_us", int(request.vcpus * PERIOD_MICROSECONDS))
        if request.device:
            self._throttle("read_bps_device", (request.read_mib_per_second or 0) * MIB)
            self._throttle("read_iops_device", request.read_iops or 0)

    def usage_source(self) -> Mapping[str, Any]:
        """The groups' directories."""
        groups = {name: str(path) for name, path in self._groups.items()}
        return {"kind": LimitedBy.CGROUP_V1.value, "groups": groups}

    def killed_for_memory(self) -> bool:
        """The kernel counts the kills of a group in memory.oom_control."""
        fields = read_fields(self._groups["memory"] / "memory.oom_control")
        return int(fields.get("oom_kill", 0)) > 0

    def _throttle(self, file: str, rate: float) -> None:
        if rate:
            self._write("blkio", f"blkio.throttle.{file}", f"{self._request.device} {int(rate)}")

    def _write(self, controller: str, file: str, value: object) -> None:
        (self._groups[controller] / file).write_text(str(value))


class CgroupV2:
    """Makes one group beneath `parent`, whose children have the memory controller at least."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[CgroupV2Hold]:
        """A group that is gone, with its processes, when the context is left."""
        group = self._parent / new_name()
        group.mkdir()
        try:
            yield CgroupV2Hold(group, request, handed_down(self._parent))
        finally:
            remove_group(group)


class CgroupV2Hold(ResourceLimits):
    """One group, with what its parent hands down."""

    means = LimitedBy.CGROUP_V2

    def __init__(self, group: Path, request: LimitRequest, controllers: frozenset[str]) -> None:
        self._group = group
        self._request = request
        self._controllers = controllers
        self._engaged: dict[str, str | None] = {}

    @property
    def held(self) -> Held:
        """Without the cpuset controller CPUs are pinned by affinity; without cpu there are no
        fractions, without io no disk rates. Nothing is held any more once somebody (systemd)
        took a controller back, or changed a limit."""
        if any(self._read(file) != text for file, text in self._engaged.items()):
            return {"vcpus": None, "memory": None}
        request, has = self._request, self._controllers
        pinned = GROUP if "cpuset" in has else AFFINITY
        held: Held = {"vcpus": pinned if "cpu" in has or not request.is_fraction else None}
        held["memory"] = GROUP
        if request.limits_disk:
            held["disk"] = GROUP if request.device and "io" in has else None
        return held

    def add(self, pid: int) -> None:
        """Move the process into the group: what it takes from here on is counted."""
        (self._group / "cgroup.procs").write_text(str(pid))

    def limit_memory(self) -> None:
        """No swap either; beyond the limit the kernel kills."""
        if (self._group / "memory.swap.max").exists():
            self._write("memory.swap.max", 0)
        self._write("memory.max", int(self._request.memory_mib * MIB))

    def engage(self) -> None:
        """Pin to the CPUs, set the quota, throttle reads of the device."""
        request = self._request
        if "cpuset" in self._controllers:
            self._write("cpuset.cpus", ",".join(map(str, request.cpus)))
        else:
            self._pin()
        if "cpu" in self._controllers:
            self._write("cpu.weight", _WEIGHT)
        if request.is_fraction and "cpu" in self._controllers:
            quota = int(request.vcpus * PERIOD_MICROSECONDS)
            self._write("cpu.max", f"{quota} {PERIOD_MICROSECONDS}")
        if request.device and request.limits_disk and "io" in self._controllers:
            rates = {"rbps": (request.read_mib_per_second or 0) * MIB, "riops": request.read_iops or 0}
            limits = " ".join(f"{name}={int(rate)}" for name, rate in rates.items() if rate)
            self._write("io.max", f"{request.device} {limits}")

    def usage_source(self) -> Mapping[str, Any]:
        """The group's directory."""
        return {"kind": LimitedBy.CGROUP_V2.value, "group": str(self._group)}

    def killed_for_memory(self) -> bool:
        """The kernel counts the kills of a group in memory.events."""
        return int(read_fields(self._group / "memory.events").get("oom_kill", 0)) > 0

    def _pin(self) -> None:
        """Twice: what an unpinned thread starts meanwhile is not pinned either."""
        for _ in range(2):
            for thread in (self._group / "cgroup.threads").read_text().split():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), self._request.cpus)

    def _write(self, file: str, value: object) -> None:
        (self._group / file).write_text(str(value))
        self._engaged[file] = self._read(file)

    def _read(self, file: str) -> str | None:
        try:
            return (self._group / file).read_text()
        except OSError:
            return None
