"""The file system and device behind a folder, and the cgroups of this process; only reads."""

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
    """One line of /proc/self/mountinfo; `device` is MAJOR:MINOR, and `root` of it lies at `point`."""

    device: str
    root: str
    point: Path
    kind: str
    source: str
    options: str


def mounts_here(mountinfo: Path = _MOUNTINFO) -> list[Mount]:
    """The mounts of this mount namespace; none where the system does not say."""
    return parse_mountinfo(text_of(mountinfo))


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts in their order; blanks in paths come escaped as \\040."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source, options) = before.split(), (*after.split(), "", "", "")[:3]
        if len(fields) > 4 and source:
            point = Path(_unescaped(fields[4]))
            mounts.append(Mount(fields[2], fields[3], point, kind, _unescaped(source), options))
    return mounts


def mount_of(folder: Path, mounts: list[Mount]) -> Mount | None:
    """The mount that holds a resolved folder: the deepest, and of several there the last."""
    holding = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point.parts), default=None)


def describe_disk(folder: Path) -> dict[str, object]:
    """File system, device and its queue's facts of an existing folder; what is not known is left out."""
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
    """A file of the kernel's, without blanks around; "" where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def block_device(path: Path, sys_dev: Path = Path("/sys/dev/block")) -> str | None:
    """MAJOR:MINOR of the whole disk that stores `path`; None for overlays, tmpfs, networks."""
    entry = sys_dev / device_number(path)
    if not entry.exists():
        return None
    # Throttles sit on whole disks: a partition's parent directory is its disk.
    disk = entry.resolve().parent if (entry / "partition").exists() else entry
    return (disk / "dev").read_text().strip()


def device_number(path: Path) -> str:
    """MAJOR:MINOR of the file system that stores `path`."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
PROC = Path("/proc/self")


class UnifiedGroup(Struct, frozen=True):
    """The own group of version 2: its directory, and that where the hierarchy is mounted."""

    directory: Path
    mount_point: Path


def v1_groups(proc: Path = PROC) -> dict[str, Path]:
    """The own group's directory in each version 1 hierarchy that is mounted."""
    own, groups = _own_paths(proc), {}
    for mount in _hierarchies(proc, "cgroup"):
        for controller in set(V1_CONTROLLERS) & set(mount.options.split(",")):
            groups[controller] = _directory_of(mount, own.get(controller, "/"))
    return groups


def v2_group(proc: Path = PROC) -> UnifiedGroup | None:
    """The own group of version 2; None where that is not mounted."""
    for mount in _hierarchies(proc, "cgroup2"):
        return UnifiedGroup(_directory_of(mount, _own_paths(proc).get("", "/")), mount.point)
    return None


def limiting_groups(controller: str, proc: Path = PROC) -> Iterator[Path]:
    """The own groups and those above, of which the tightest limit of `controller` holds."""
    unified = v2_group(proc)
    own = ([unified.directory] if unified else []) + [
        path for name, path in v1_groups(proc).items() if name == controller
    ]
    for group in own:
        yield group
        yield from (above for above in group.parents if (above / "cgroup.procs").exists())


def mount_points(proc: Path = PROC) -> list[Path]:
    """The root of every cgroup hierarchy that is mounted."""
    return [mount.point for kind in ("cgroup", "cgroup2") for mount in _hierarchies(proc, kind)]


def _hierarchies(proc: Path, kind: str) -> list[Mount]:
    return [mount for mount in mounts_here(proc / "mountinfo") if mount.kind == kind]


def _own_paths(proc: Path) -> dict[str, str]:
    """/proc/self/cgroup: 'ID:controller,controller:/path', with no controller for version 2."""
    paths: dict[str, str] = {}
    with suppress(OSError):  # systems that have no such file
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _directory_of(mount: Mount, path: str) -> Path:
    """A container may see its own group alone, mounted as if it were the root; then `path` is
    that of the host, and lies beneath the mount's root or nowhere."""
    root = "" if mount.root == "/" else mount.root
    inside = path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else path
    nested = mount.point / inside.lstrip("/")
    return nested if nested.is_dir() else mount.point
