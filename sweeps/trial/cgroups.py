"""Limits by cgroups of version 1 or 2, and the choice of the strongest limits on a machine.

Kernel documentation: cgroup-v1/{memory,cpusets,blkio-controller}.rst, scheduler/sched-bwc.rst,
admin-guide/cgroup-v2.rst."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from advisor.domain import MIB, LimitedBy
from advisor.sweeps.machine.environment import V1_CONTROLLERS, UnifiedGroup, v1_groups, v2_group
from advisor.sweeps.trial import limits
from advisor.sweeps.trial.limits import GROUP, read_fields, remove_group
from advisor.sweeps.trial.ownership import new_name

LEAF = "advisor-leaf"
# Memory comes first: the kernel refuses it while the group has processes, whereas cpu or cpuset would turn
# such a group into a threaded one.
_CONTROLLERS = ("memory", "io", "cpuset", "cpu")
# Rounds of moving processes, as new ones may start meanwhile.
_MOST_ROUNDS = 20
_PATIENCE_SECONDS = 10.0


def delegated_parent(own: UnifiedGroup | None) -> Path | None:
    """The first directory whose children have at least the memory controller; None if there is none. It
    switches controllers on, and moves processes, where that is allowed."""
    if own is None:
        return None
    # Candidates: this process's group, its parent if the group is a leaf of ours, the mounted root.
    beside = [own.directory.parent] if own.directory.name == LEAF else []
    for group in dict.fromkeys([own.directory, *beside, own.mount_point]):
        files = (".", "cgroup.procs", "cgroup.subtree_control")
        is_writable = all(os.access(group / file, os.W_OK) for file in files)
        if is_writable and _can_delegate_memory(group, may_empty=_is_delegated(group, own)):
            return group
    return None


def handed_down(parent: Path) -> frozenset[str]:
    """The controllers of a group's children."""
    return _names(parent / "cgroup.subtree_control")


def _is_delegated(group: Path, own: UnifiedGroup) -> bool:
    """True if the group is delegated to us, so that we may move its processes.

    That is so for the root of a cgroup namespace, which was made for this container; for systemd's units with
    Delegate=yes; and for an ordinary user's group inside one of another user, who must have handed it over.
    All other groups belong to systemd or an unknown owner."""
    if group != own.directory or not (group / "cgroup.type").exists():  # the kernel's own root
        return False
    if group == own.mount_point:
        return True
    owner = group.stat().st_uid
    if owner == os.geteuid() != 0 and group.parent.stat().st_uid != owner:
        return True
    if group.suffix not in (".scope", ".service"):
        return False
    # systemd's mark on such groups (user.delegate) is missing in users' scopes of version 252.
    of_user = ["--user"] if os.geteuid() else []
    command = ["systemctl", *of_user, "show", "--property=Delegate", "--value", group.name]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.stdout.strip() == "yes"


def _can_delegate_memory(group: Path, *, may_empty: bool) -> bool:
    available = _names(group / "cgroup.controllers")
    if "memory" not in available:
        return False
    if "memory" not in handed_down(group) and not _switched_on(group, may_empty=may_empty):
        return False
    for controller in _CONTROLLERS:
        if controller in available - handed_down(group):
            with suppress(OSError):  # the other controllers may work
                _switch_on(group, controller)
    return True


def _switched_on(group: Path, *, may_empty: bool) -> bool:
    """Switch the memory controller on after moving processes into a leaf; moves them back if that fails."""
    leaf = group / LEAF
    had_leaf, moved = leaf.is_dir(), False
    for _ in range(_MOST_ROUNDS):
        try:
            _switch_on(group, "memory")
        except OSError as error:
            if error.errno != errno.EBUSY or not may_empty:
                break
        else:
            return True
        try:
            leaf.mkdir(exist_ok=True)
            moved = True
            _move_all(group, leaf)
        except OSError:  # a process of another namespace, or one that may not be moved
            break
    if moved and not had_leaf:
        with suppress(OSError):
            _move_all(leaf, group)
            leaf.rmdir()
    return False


def _move_all(source: Path, target: Path) -> None:
    """Move all processes of a group; those that have ended meanwhile are ignored."""
    for pid in (source / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (target / "cgroup.procs").write_text(pid)


def _switch_on(group: Path, controller: str) -> None:
    (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _names(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text().split())
    except OSError:
        return frozenset()


PERIOD_MICROSECONDS = 100_000
# The largest values that the kernel takes: a trial has priority over other load on its CPUs.
_SHARES, _WEIGHT = 262_144, 10_000


class CgroupV1(limits.ResourceLimits):
    """Limits by a group in each of `parents` (controller: directory), removed with its processes."""

    means = LimitedBy.CGROUP_V1

    def __init__(self, request: limits.LimitRequest, parents: Mapping[str, Path]) -> None:
        super().__init__(request)
        self._parents = parents
        self._groups: dict[str, Path] = {}
        self._made = ExitStack()

    def __enter__(self) -> Self:
        name = new_name()
        with ExitStack() as stack:
            # Controllers may share a hierarchy (cpu,cpuacct): one directory, made once.
            for controller, parent in self._parents.items():
                group = parent / name
                if group not in self._groups.values():
                    group.mkdir()
                    stack.callback(remove_group, group)
                self._groups[controller] = group
            # A cpuset accepts no process until it has CPUs and memory nodes.
            for file in ("cpuset.cpus", "cpuset.mems"):
                effective = f"cpuset.effective_{file.removeprefix('cpuset.')}"
                self._write("cpuset", file, (self._parents["cpuset"] / effective).read_text().strip())
            self._made = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._made.close()

    @property
    def held(self) -> limits.Held:
        held: limits.Held = {"vcpus": GROUP, "memory": GROUP}
        if self._request.limits_disk:
            held["disk"] = GROUP if self._request.device else None
        return held

    def add(self, pid: int) -> None:
        for controller in self._groups:
            self._write(controller, "cgroup.procs", pid)

    def limit_memory(self) -> None:
        """Switch the memory limit on; version 1 refuses a limit below the use that it cannot reclaim."""
        memory_mib = self._request.memory_mib
        try:
            self._write("memory", "memory.limit_in_bytes", int(memory_mib * MIB))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise MemoryError(f"more is in use than its limit of {memory_mib:g} MiB") from error

    def engage(self) -> None:
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
        groups = {name: str(path) for name, path in self._groups.items()}
        return {"kind": LimitedBy.CGROUP_V1.value, "groups": groups}

    def killed_for_memory(self) -> bool:
        fields = read_fields(self._groups["memory"] / "memory.oom_control")
        return int(fields.get("oom_kill", 0)) > 0

    def _throttle(self, file: str, rate: float) -> None:
        if rate:
            self._write("blkio", f"blkio.throttle.{file}", f"{self._request.device} {int(rate)}")

    def _write(self, controller: str, file: str, value: object) -> None:
        (self._groups[controller] / file).write_text(str(value))


class CgroupV2(limits.ResourceLimits):
    """Limits by one group below `parent` with its controllers, removed at the end with its processes."""

    means = LimitedBy.CGROUP_V2

    def __init__(self, request: limits.LimitRequest, parent: Path) -> None:
        super().__init__(request)
        self._group = parent / new_name()
        self._controllers = handed_down(parent)
        self._engaged: dict[str, str | None] = {}

    def __enter__(self) -> Self:
        self._group.mkdir()
        return self

    def __exit__(self, *_error: object) -> None:
        remove_group(self._group)

    @property
    def held(self) -> limits.Held:
        """What holds each limit. Without the cpuset controller CPUs are pinned by affinity; without cpu no
        fraction is held, without io no disk rate. Nothing counts as held once another process (systemd) has
        removed a controller or changed a limit."""
        if any(self._read(file) != text for file, text in self._engaged.items()):
            return {"vcpus": None, "memory": None}
        request, has = self._request, self._controllers
        pinned = GROUP if "cpuset" in has else limits.AFFINITY
        held: limits.Held = {"vcpus": pinned if "cpu" in has or not request.is_fraction else None}
        held["memory"] = GROUP
        if request.limits_disk:
            held["disk"] = GROUP if request.device and "io" in has else None
        return held

    def add(self, pid: int) -> None:
        (self._group / "cgroup.procs").write_text(str(pid))

    def limit_memory(self) -> None:
        """Switch the memory limit on, and swap off; beyond the limit the kernel kills."""
        if (self._group / "memory.swap.max").exists():
            self._write("memory.swap.max", 0)
        self._write("memory.max", int(self._request.memory_mib * MIB))

    def engage(self) -> None:
        request = self._request
        if "cpuset" in self._controllers:
            self._write("cpuset.cpus", ",".join(map(str, request.cpus)))
        else:
            for _ in range(2):  # twice, as an unpinned thread may start others meanwhile
                for thread in (self._group / "cgroup.threads").read_text().split():
                    with suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread), request.cpus)
        if "cpu" in self._controllers:
            self._write("cpu.weight", _WEIGHT)
            if request.is_fraction:
                quota = int(request.vcpus * PERIOD_MICROSECONDS)
                self._write("cpu.max", f"{quota} {PERIOD_MICROSECONDS}")
        if request.device and request.limits_disk and "io" in self._controllers:
            rates = {"rbps": (request.read_mib_per_second or 0) * MIB, "riops": request.read_iops or 0}
            most = " ".join(f"{name}={int(rate)}" for name, rate in rates.items() if rate)
            self._write("io.max", f"{request.device} {most}")

    def usage_source(self) -> Mapping[str, Any]:
        return {"kind": LimitedBy.CGROUP_V2.value, "group": str(self._group)}

    def killed_for_memory(self) -> bool:
        return int(read_fields(self._group / "memory.events").get("oom_kill", 0)) > 0

    def _write(self, file: str, value: object) -> None:
        (self._group / file).write_text(str(value))
        self._engaged[file] = self._read(file)

    def _read(self, file: str) -> str | None:
        try:
            return (self._group / file).read_text()
        except OSError:
            return None


def strongest_limits(request: limits.LimitRequest) -> limits.ResourceLimits:
    """The strongest limits that this machine supports; none if the request is for the whole machine."""
    if request.wants_whole_machine:
        return limits.WholeMachine(request)
    if not sys.platform.startswith("linux"):
        return limits.ResourceLimits(request)
    groups = v1_groups()
    if set(groups) == set(V1_CONTROLLERS) and all(os.access(group, os.W_OK) for group in groups.values()):
        return CgroupV1(request, groups)
    parent = delegated_parent(v2_group())
    return CgroupV2(request, parent) if parent else limits.Affinity(request)
