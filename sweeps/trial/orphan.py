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
from advisor.sweeps.machine.mounts import mounts_here, text_of
from advisor.sweeps.machine.processes import is_running, start_ticks
from advisor.sweeps.trial.limits.usage import remove_group
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, OwnerTag, tag_in


class Orphan(Struct, frozen=True, kw_only=True):
    """`kind`: process, mount, loop device, cgroup or folder. `remove` is idempotent, and raises
    OSError or `MeasuringError` when it cannot; `command` does the same with more rights."""

    kind: str
    name: str
    owner: OwnerTag
    command: str
    remove: Callable[[], None]


_PATIENCE_SECONDS = 5.0
# Ends by itself with the last process that it serves; killed, it would be started anew.
_ENDS_BY_ITSELF = b"multiprocessing.resource_tracker"
_VARIABLE = f"{OWNER_VARIABLE}=".encode()
_MNT_DETACH = 2
_LOOP_CLR_FD = 0x4C01


def orphan_processes() -> Iterator[Orphan]:
    """All but this one; those of other users show their environment to root only."""
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        since = start_ticks(int(entry.name))
        tag = _owner_of_process(entry)
        if tag and is_running(int(entry.name), since):
            command, remove = f"kill -9 {entry.name}", partial(_end, int(entry.name), since)
            name = f"{entry.name} ({text_of(entry / 'comm') or '?'})"
            yield Orphan(kind="process", name=name, owner=tag, command=command, remove=remove)


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


def _end(pid: int, since: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while is_running(pid, since):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise MeasuringError("the kernel holds it", hint="does its disk still answer?")
        time.sleep(0.01)


def orphan_groups() -> Iterator[Orphan]:
    """In every hierarchy that is mounted."""
    for root in mount_points() if Path("/proc/self/cgroup").exists() else ():
        for folder, children, _ in os.walk(root):
            for group in (Path(folder, name) for name in sorted(children)):
                if tag := tag_in(group.name):
                    command, remove = f"rmdir '{group}'", partial(remove_group, group)
                    yield Orphan(kind="cgroup", name=str(group), owner=tag, command=command, remove=remove)


def orphan_mounts() -> Iterator[Orphan]:
    """The innermost first."""
    for point in sorted(mounted_places(), key=lambda entry: len(entry.parts), reverse=True):
        if tag := _owner_of_path(point):
            command, remove = f"umount -l '{point}'", partial(_unmount, point)
            yield Orphan(kind="mount", name=str(point), owner=tag, command=command, remove=remove)


def orphan_loops() -> Iterator[Orphan]:
    """They keep their file's blocks as long as they have it, also once it is deleted."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        device = Path("/dev") / backing.parts[-3]
        if tag := _owner_of_path(Path(text_of(backing).removesuffix(" (deleted)"))):
            command, remove = f"losetup -d {device}", partial(_detach, device)
            yield Orphan(kind="loop device", name=str(device), owner=tag, command=command, remove=remove)


def mounted_places() -> list[Path]:
    """Every mount point."""
    return [mount.point for mount in mounts_here()]


def _owner_of_path(point: Path) -> OwnerTag | None:
    """The mark of the folder that it lies in."""
    return next((tag for part in point.parts if (tag := tag_in(part))), None)


def _unmount(point: Path) -> None:
    """Lazily: a disk that answers no more would hold us up for ever."""
    if point in mounted_places() and ctypes.CDLL(None, use_errno=True).umount2(
        os.fsencode(point), _MNT_DETACH
    ):
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
