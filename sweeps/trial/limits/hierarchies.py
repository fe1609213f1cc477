"""Where this process may make cgroups, and how one is emptied and removed, whatever happens."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from advisor.errors import MeasuringError

V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
_PROC = Path("/proc/self")


def v1_parents(proc: Path = _PROC) -> dict[str, Path]:
    """The own group's directory in each version 1 hierarchy that is mounted."""
    own = _own_groups(proc)
    parents = {}
    for mount_point, kind, options in _mounts(proc):
        if kind != "cgroup":
            continue
        for controller in set(V1_CONTROLLERS) & set(options.split(",")):
            parents[controller] = _nested(mount_point, own.get(controller, "/"))
    return parents


def v2_parents(proc: Path = _PROC) -> list[Path]:
    """Where version 2 groups might go: beneath the own group, else beneath the mounted root
    (a group with processes of its own may not hand controllers down, only the root may)."""
    for mount_point, kind, _ in _mounts(proc):
        if kind == "cgroup2":
            own = _nested(mount_point, _own_groups(proc).get("", "/"))
            return [own] if own == mount_point else [own, mount_point]
    return []


def mount_points(proc: Path = _PROC) -> list[Path]:
    """The root of every cgroup hierarchy that is mounted."""
    return [place for place, kind, _ in _mounts(proc) if kind in ("cgroup", "cgroup2")]


def writable(parents: Mapping[str, Path]) -> bool:
    """Whether groups may be made in all of them."""
    return all(path.is_dir() and os.access(path, os.W_OK) for path in parents.values())


def _own_groups(proc: Path) -> dict[str, str]:
    """/proc/self/cgroup: 'ID:controller,controller:/path', with no controller for version 2."""
    groups: dict[str, str] = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _mounts(proc: Path) -> list[tuple[Path, str, str]]:
    """(mount point, file system, its options) of /proc/self/mountinfo."""
    rows = []
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        rows.append((Path(before.split()[4]), kind, options))
    return rows


def _nested(mount_point: Path, own_path: str) -> Path:
    """Inside a container the own path may be the host's, and not exist beneath the mount."""
    nested = mount_point / own_path.lstrip("/")
    return nested if nested.is_dir() else mount_point


def remove_group(group: Path, *, patience_seconds: float = 10.0) -> None:
    """Kill what still runs inside, and remove the group; `MeasuringError` if it stays."""
    deadline = time.monotonic() + patience_seconds
    while group.exists():
        for pid in _members(group):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except PermissionError:
            raise
        except OSError as error:
            if time.monotonic() > deadline:
                raise MeasuringError(
                    "cannot remove the cgroup {group}: {error}", group=group, error=error
                ) from error
            time.sleep(0.02)


def _members(group: Path) -> list[int]:
    """Never 0: that is a process which this namespace does not see, and all of ours to kill."""
    try:
        pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
    return [pid for pid in pids if pid > 0]
