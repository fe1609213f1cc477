"""Leftovers of a killed sweep: processes, cgroups, mounts and loop devices, with their owner."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.sweeps.machine.cgroups import mount_points
from advisor.sweeps.machine.mounts import Mount, parse_mountinfo
from advisor.sweeps.machine.processes import is_running, start_ticks
from advisor.sweeps.trial.limits.usage import remove_group
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, OwnerTag, own_tag, tag_in

OwnerFilter = Callable[[OwnerTag], bool]


class Orphan(Struct, frozen=True, kw_only=True):
    """`kind`: process, mount, loop device, cgroup or folder. `remove` is idempotent, and raises
    OSError or `MeasuringError` when it cannot; `command` does the same with more rights."""

    kind: str
    name: str
    owner: OwnerTag
    command: str
    remove: Callable[[], None]


def owner_has_gone(tag: OwnerTag) -> bool:
    """True where the owner is gone: only such things may be taken from others."""
    return tag.has_gone


def owner_is_me(tag: OwnerTag) -> bool:
    """True for things that this process took, or that others took for it."""
    return tag == own_tag()


_PATIENCE_SECONDS = 5.0
# Ends by itself with the last process that it serves; killed, it would be started anew.
_ENDS_BY_ITSELF = b"multiprocessing.resource_tracker"
_VARIABLE = f"{OWNER_VARIABLE}=".encode()


def orphan_processes(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """All but this one; those of other users show their environment to root only."""
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        since = start_ticks(int(entry.name))
        tag = _owner_of_process(entry)
        if tag and of_owner(tag) and is_running(int(entry.name), since):
            yield Orphan(
                kind="process",
                name=f"{entry.name} ({_command(entry)})",
                owner=tag,
                command=f"kill -9 {entry.name}",
                remove=partial(_end, int(entry.name), since),
            )


def _owner_of_process(entry: Path) -> OwnerTag | None:
    try:
        variables = (entry / "environ").read_bytes().split(b"\0")
        if _ENDS_BY_ITSELF in (entry / "cmdline").read_bytes():
            return None
    except OSError:
        return None
    for variable in variables:
        if variable.startswith(_VARIABLE):
            return tag_in(variable[len(_VARIABLE) :].decode(errors="replace"))
    return None


def _command(entry: Path) -> str:
    try:
        return (entry / "comm").read_text().strip()
    except OSError:
        return "?"


def _end(pid: int, since: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while is_running(pid, since):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise MeasuringError("the kernel holds it", hint="does its disk still answer?")
        time.sleep(0.01)


def orphan_groups(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """In every hierarchy that is mounted."""
    for root in mount_points() if Path("/proc/self/cgroup").exists() else ():
        for folder, children, _ in os.walk(root):
            for name in sorted(children):
                tag = tag_in(name)
                if tag and of_owner(tag):
                    group = Path(folder) / name
                    yield Orphan(
                        kind="cgroup",
                        name=str(group),
                        owner=tag,
                        command=f"rmdir '{group}'",
                        remove=partial(remove_group, group),
                    )


_MNT_DETACH = 2
_LOOP_CLR_FD = 0x4C01


def orphan_mounts(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """The innermost first."""
    for point in sorted(mounted_places(), key=lambda entry: len(entry.parts), reverse=True):
        tag = _owner_of_path(point)
        if tag and of_owner(tag):
            yield Orphan(
                kind="mount",
                name=str(point),
                owner=tag,
                command=f"umount -l '{point}'",
                remove=partial(_unmount, point),
            )


def orphan_loops(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """They keep their file's blocks as long as they have it, also once it is deleted."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        device = Path("/dev") / backing.parts[-3]
        tag = _owner_of_path(Path(_text(backing).removesuffix(" (deleted)")))
        if tag and of_owner(tag):
            yield Orphan(
                kind="loop device",
                name=str(device),
                owner=tag,
                command=f"losetup -d {device}",
                remove=partial(_detach, device),
            )


def mounted_places() -> list[Path]:
    """Every mount point."""
    return [mount.point for mount in mounts_here()]


def mounts_here() -> list[Mount]:
    """The mounts of this mount namespace; none where the system does not say."""
    return parse_mountinfo(_text(Path("/proc/self/mountinfo")))


def _owner_of_path(point: Path) -> OwnerTag | None:
    """The mark of the folder that it lies in."""
    return next((tag for part in point.parts if (tag := tag_in(part))), None)


def _unmount(point: Path) -> None:
    """Lazily: a disk that answers no more would hold us up for ever."""
    if point not in mounted_places():
        return
    if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(point), _MNT_DETACH):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(point))


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
