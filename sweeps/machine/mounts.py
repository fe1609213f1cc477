"""Finds the file system and device of a folder, and the cgroups of this process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_MOUNTINFO = Path("/proc/self/mountinfo")
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


class Mount(Struct, frozen=True):
    """One line of /proc/self/mountinfo: `root` of the `device` (MAJOR:MINOR) is mounted at `point`."""

    device: str
    root: str
    point: Path
    kind: str
    source: str
    options: str


def mounts_here(mountinfo: Path = _MOUNTINFO) -> list[Mount]:
    """The mounts of this mount namespace; empty if the system does not list them."""
    return parse_mountinfo(text_of(mountinfo))


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts in the text of mountinfo, in order; blanks in paths are escaped there as \\040."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source, options) = before.split(), (*after.split(), "", "", "")[:3]
        if len(fields) > 4 and source:
            point = Path(_unescaped(fields[4]))
            mounts.append(Mount(fields[2], fields[3], point, kind, _unescaped(source), options))
    return mounts


def mount_of(folder: Path, mounts: list[Mount]) -> Mount | None:
    """The mount of a resolved folder: the deepest one, and the last if several share that mount point."""
    holding = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point.parts), default=None)


def describe_disk(folder: Path) -> dict[str, object]:
    """Facts of the file system, device and queue of an existing folder; unknown ones are left out."""
    facts: dict[str, object] = {"path": str(folder.resolve())}
    if mount := mount_of(folder.resolve(), mounts_here()):
        facts |= {"mount_point": str(mount.point), "source": mount.source, "file_system": mount.kind}
    if number := block_device(folder):
        device = Path("/sys/dev/block", number)
        rotational, sectors = text_of(device / "queue" / "rotational"), text_of(device / "size")
        scheduler = re.search(r"\[([^\]]+)\]", text_of(device / "queue" / "scheduler"))  # mq-deadline [none]
        facts |= {
            "device": device.resolve().name,
            "device_model": text_of(device / "device" / "model") or None,
            "rotational": rotational == "1" if rotational else None,
            "scheduler": scheduler[1] if scheduler else None,
            "device_gib": int(sectors) * 512 / 2**30 if sectors else None,
        }
    space = os.statvfs(folder)
    facts["free_mib"] = space.f_bavail * space.f_frsize / 2**20
    return {name: value for name, value in facts.items() if value is not None}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def text_of(path: Path) -> str:
    """The content of a kernel file without surrounding blanks; "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def block_device(path: Path) -> str | None:
    """MAJOR:MINOR of the whole disk that stores `path`; None for overlay, tmpfs and network file systems."""
    entry = Path("/sys/dev/block", device_number(path))
    if not entry.exists():
        return None
    # Disk limits apply to whole disks: the parent directory of a partition is its disk.
    disk = entry.resolve().parent if (entry / "partition").exists() else entry
    return (disk / "dev").read_text().strip()


def device_number(path: Path) -> str:
    """MAJOR:MINOR of the file system that stores `path`."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
PROC = Path("/proc/self")


class UnifiedGroup(Struct, frozen=True):
    """This process's cgroup of version 2: its directory, and the hierarchy's mount point."""

    directory: Path
    mount_point: Path


def v1_groups(proc: Path = PROC) -> dict[str, Path]:
    """The directory of this process's cgroup in each mounted hierarchy of version 1, by controller."""
    own, groups = _own_paths(proc), {}
    for mount in _hierarchies(proc, "cgroup"):
        for controller in set(V1_CONTROLLERS) & set(mount.options.split(",")):
            groups[controller] = _directory_of(mount, own.get(controller, "/"))
    return groups


def v2_group(proc: Path = PROC) -> UnifiedGroup | None:
    """This process's cgroup of version 2; None if that hierarchy is not mounted."""
    for mount in _hierarchies(proc, "cgroup2"):
        return UnifiedGroup(_directory_of(mount, _own_paths(proc).get("", "/")), mount.point)
    return None


def limiting_groups(controller: str, proc: Path = PROC) -> Iterator[Path]:
    """This process's cgroups for `controller` and their ancestors; the tightest of their limits applies."""
    unified, v1 = v2_group(proc), v1_groups(proc).get(controller)
    for group in [*([unified.directory] if unified else ()), *([v1] if v1 else ())]:
        yield group
        yield from (above for above in group.parents if (above / "cgroup.procs").exists())


def mount_points() -> list[Path]:
    """The root of every cgroup hierarchy that is mounted."""
    return [mount.point for kind in ("cgroup", "cgroup2") for mount in _hierarchies(PROC, kind)]


def _hierarchies(proc: Path, kind: str) -> list[Mount]:
    return [mount for mount in mounts_here(proc / "mountinfo") if mount.kind == kind]


def _own_paths(proc: Path) -> dict[str, str]:
    """The path of this process's cgroup by controller ("" for version 2), from /proc/self/cgroup."""
    paths: dict[str, str] = {}
    with suppress(OSError):  # systems that have no such file
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _directory_of(mount: Mount, path: str) -> Path:
    """The directory of a cgroup. A container may see only its cgroup, mounted as the root; then `path` is the
    host's path, which lies below the mount's root or is not visible."""
    root = "" if mount.root == "/" else mount.root
    inside = path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path
    nested = mount.point / inside.lstrip("/")
    return nested if nested.is_dir() else mount.point
