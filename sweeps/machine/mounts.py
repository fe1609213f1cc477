"""The file system and the device behind a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

_MOUNTINFO = Path("/proc/self/mountinfo")
_BLOCK_DEVICES = Path("/sys/dev/block")
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


class Mount(Struct, frozen=True):
    """One line of /proc/self/mountinfo; `device` is MAJOR:MINOR."""

    device: str
    point: Path
    kind: str
    source: str


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts in their order; blanks in paths come escaped as \\040."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) > 4 and len(kind) > 1:
            point = Path(_unescaped(fields[4]))
            mounts.append(Mount(fields[2], point, kind[0], _unescaped(kind[1])))
    return mounts


def mount_of(folder: Path, mounts: list[Mount]) -> Mount | None:
    """The mount that holds a resolved folder: the deepest, and of several there the last."""
    holding = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    return max(reversed(holding), key=lambda mount: len(mount.point.parts), default=None)


def describe_disk(folder: Path) -> dict[str, object]:
    """File system, device and its queue's facts of an existing folder; what is not known is left out."""
    mount = mount_of(folder.resolve(), parse_mountinfo(_MOUNTINFO.read_text()))
    facts: dict[str, object] = {"path": str(folder.resolve())}
    if mount:
        facts |= {"mount_point": str(mount.point), "source": mount.source}
        facts["file_system"] = mount.kind
    number = block_device(folder)
    facts |= _device_facts(_BLOCK_DEVICES / number) if number else {}
    space = os.statvfs(folder)
    return facts | {"free_mib": space.f_bavail * space.f_frsize / 2**20}


def _device_facts(device: Path) -> dict[str, object]:
    rotational = _text(device / "queue" / "rotational")
    sectors = _text(device / "size")
    facts = {
        "device": device.resolve().name,
        "device_model": _text(device / "device" / "model"),
        "rotational": None if rotational is None else rotational == "1",
        "scheduler": _chosen(_text(device / "queue" / "scheduler")),
        "device_gib": None if sectors is None else int(sectors) * 512 / 2**30,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _chosen(text: str | None) -> str | None:
    """'mq-deadline [none]' -> 'none'."""
    match = re.search(r"\[([^\]]+)\]", text or "")
    return match.group(1) if match else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


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
