"""Mounts in the folders of owners that have gone, and loop devices on files there."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sweeps.machine.mounts import Mount, parse_mountinfo
from sweeps.trial.orphans.orphan import Orphan, OwnerFilter
from sweeps.trial.ownership import OwnerTag, tag_in

_MNT_DETACH = 2
_LOOP_CLR_FD = 0x4C01


def orphan_mounts(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """The innermost first."""
    for place in sorted(mounted_places(), key=lambda entry: len(entry.parts), reverse=True):
        tag = _owner_of(place)
        if tag and of_owner(tag):
            yield Orphan(
                kind="mount", name=str(place), owner=tag,
                command=f"umount -l '{place}'", remove=partial(_unmount, place),
            )  # fmt: skip


def orphan_loops(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """They keep their file's blocks as long as they have it, also once it is deleted."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        device = Path("/dev") / backing.parts[-3]
        tag = _owner_of(Path(_text(backing).removesuffix(" (deleted)")))
        if tag and of_owner(tag):
            yield Orphan(
                kind="loop device", name=str(device), owner=tag,
                command=f"losetup -d {device}", remove=partial(_detach, device),
            )  # fmt: skip


def mounted_places() -> list[Path]:
    """Every mount point."""
    return [mount.point for mount in mounts_here()]


def mounts_here() -> list[Mount]:
    """What is mounted in this mount namespace; none where the system does not tell."""
    return parse_mountinfo(_text(Path("/proc/self/mountinfo")))


def _owner_of(place: Path) -> OwnerTag | None:
    """The mark of the folder that it lies in."""
    return next((tag for part in place.parts if (tag := tag_in(part))), None)


def _unmount(place: Path) -> None:
    """Lazily: a disk that answers no more would hold us up for ever."""
    if place not in mounted_places():
        return
    if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(place), _MNT_DETACH):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(place))


def _detach(device: Path) -> None:
    descriptor = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _LOOP_CLR_FD)
    except OSError as error:
        if error.errno != errno.ENXIO:  # has no file any more
            raise
    finally:
        os.close(descriptor)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
