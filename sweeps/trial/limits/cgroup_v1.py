"""Limits by cgroup version 1: one group in each of five hierarchies.

Kernel documentation: cgroup-v1/{memory,cpusets,blkio-controller}.rst, scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from advisor.domain import MIB, LimitedBy
from advisor.sweeps.trial.limits.removing import remove_group
from advisor.sweeps.trial.limits.types import GROUP, Held, LimitRequest, limited_by
from advisor.sweeps.trial.limits.usage import read_fields
from advisor.sweeps.trial.ownership import new_name

PERIOD_MICROSECONDS = 100_000


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


class CgroupV1Hold:
    """See `advisor.sweeps.trial.limits.types.ResourceLimits`."""

    def __init__(self, groups: Mapping[str, Path], cpuset: Path, request: LimitRequest) -> None:
        self._groups = groups
        self._request = request
        # A cpuset takes no process before it has CPUs and memory nodes.
        for file in ("cpuset.cpus", "cpuset.mems"):
            self._write("cpuset", file, _effective(cpuset, file))

    @property
    def held(self) -> Held:
        """No disk rate where no block device is known to bear it."""
        held: Held = {"vcpus": GROUP, "memory": GROUP}
        if self._request.limits_disk:
            held["disk"] = GROUP if self._request.device else None
        return held

    @property
    def limited_by(self) -> LimitedBy:
        """`none` when a disk limit is asked for and not held."""
        return limited_by(LimitedBy.CGROUP_V1, self.held)

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
        """Pin to the CPUs, set the quota, throttle reads of the device."""
        request = self._request
        self._write("cpuset", "cpuset.cpus", ",".join(map(str, request.cpus)))
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


def _effective(cpuset: Path, file: str) -> str:
    kind = file.removeprefix("cpuset.")
    return (cpuset / f"cpuset.effective_{kind}").read_text().strip()
