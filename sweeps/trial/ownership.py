"""Marks everything that a sweep creates with its owner; finds and removes what killed sweeps left.

Everything that may outlive its process (a cgroup, a folder, a child process) is named, or has in its
environment, `advisor-PID-STARTTIME-PLACE-..`. A process with a reused pid has another start time, and one of
another machine, boot or container another place, so neither is the owner. There is no register besides these
names: nothing has to be written first, and no file can disagree with the machine."""

from __future__ import annotations

import glob
import hashlib
import itertools
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from advisor.errors import MeasuringError
from advisor.files import datasets_folder
from advisor.sweeps.machine.environment import mount_points, mounts_here, text_of
from advisor.sweeps.machine.processes import is_running, start_ticks, stat_fields
from advisor.sweeps.trial.limits import remove_group

OWNER_VARIABLE = "ADVISOR_OWNER"  # the environment variable with a process's owner
_MARK = re.compile(r"advisor-(\d+)-(\d+)(?:-(\d{10}))?(?:-\d+)*$")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_serial = itertools.count()


class OwnerTag(Struct, frozen=True):
    """A process: `started` in clock ticks since boot; `place` as ten digits, "" if unknown."""

    pid: int
    started: str
    place: str = ""

    def __str__(self) -> str:
        return f"advisor-{self.pid}-{self.started}-{self.place or 0}"

    @property
    def is_elsewhere(self) -> bool:
        """True if the owner belongs to another machine, boot or container, which is unknown here."""
        return self.place not in ("", _place_digits())

    @property
    def has_gone(self) -> bool:
        """True if the process has ended; False if the system shows no processes."""
        return bool(stat_fields(os.getpid())) and not (
            self.is_elsewhere or is_running(self.pid, self.started)
        )


def own_tag() -> OwnerTag:
    """The tag of this process, or of the one that it works for (a Ray task works for its driver)."""
    served = tag_in(os.environ.get(OWNER_VARIABLE, ""))
    if served and not served.is_elsewhere and not served.has_gone:
        return served
    return process_tag()


def process_tag() -> OwnerTag:
    """The tag of this process."""
    return OwnerTag(os.getpid(), start_ticks(os.getpid()) or "0", _place_digits())


def new_name() -> str:
    """A unique name for something that this process creates."""
    return f"{own_tag()}-{os.getpid()}-{next(_serial)}"


def tag_in(name: str) -> OwnerTag | None:
    """The owner in a name; None for a name without a mark."""
    match = _MARK.match(name)
    return OwnerTag(int(match[1]), match[2], match[3] or "") if match else None


def scratch_parent() -> Path:
    """The parent of workers' scratch folders; it is short, since a socket's path has at most 107 bytes."""
    return Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())


@cache
def place() -> str:
    """The boot and process namespace in which our process ids are valid; "" if unknown."""
    try:
        return f"{_BOOT.read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _place_digits() -> str:
    """A hash of `place` in ten digits, short enough for a name."""
    if not place():
        return ""
    return f"{int.from_bytes(hashlib.sha256(place().encode()).digest()[:4]):010d}"


class Owner(Struct, frozen=True):
    """A driver of a sweep: its `pid` within `place`, a boot and process namespace ("" if unknown)."""

    name: str
    host: str
    place: str
    pid: int
    started: str


def this_process() -> Owner:
    """A new owner for this process; each call returns another one, so that successive drivers differ."""
    host, pid = socket.gethostname(), os.getpid()
    name = f"{host[:100]}:{pid}:{secrets.token_hex(8)}"
    return Owner(name, host[:255], place(), pid, start_ticks(pid))


def columns_of(owner: Owner) -> dict[str, Any]:
    """The owner as database columns."""
    columns = asdict(owner)
    return {"owner": columns.pop("name"), **columns}


def process_has_gone(where: str, pid: int, start_time: str) -> bool:
    """True if a process has ended; False for other machines and containers, where that is unknown."""
    return bool(where) and where == place() and not is_running(pid, start_time)


class Orphan(Struct, frozen=True):
    """A process, cgroup or folder (`kind`) with its owner. `remove` is idempotent, and raises OSError or
    `MeasuringError`; `command` does the same with more rights."""

    kind: str
    name: str
    owner: OwnerTag
    command: str
    remove: Callable[[], None]


_PATIENCE_SECONDS = 5.0
# It ends with the last process that it serves; if killed earlier, it would be started again.
_ENDS_BY_ITSELF = b"multiprocessing.resource_tracker"
_VARIABLE = f"{OWNER_VARIABLE}=".encode()


def orphan_processes() -> Iterator[Orphan]:
    """Marked processes other than this one; only root can see those of other users."""
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        since = start_ticks(int(entry.name))
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            ends_by_itself = _ENDS_BY_ITSELF in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        marks = (text.removeprefix(_VARIABLE) for text in variables if text.startswith(_VARIABLE))
        tag = tag_in(next(marks, b"").decode(errors="replace"))
        if tag and not ends_by_itself and is_running(int(entry.name), since):
            name, end = f"{entry.name} ({text_of(entry / 'comm')})", partial(_kill, int(entry.name), since)
            yield Orphan("process", name, tag, f"kill -9 {entry.name}", end)


def _kill(pid: int, since: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while is_running(pid, since):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise MeasuringError("the kernel holds it", hint="does its disk still answer?")
        time.sleep(0.01)


def orphan_groups() -> Iterator[Orphan]:
    """Marked cgroups of all mounted hierarchies."""
    for root in mount_points() if Path("/proc/self/cgroup").exists() else ():
        for folder, children, _ in os.walk(root):
            for group in (Path(folder, name) for name in sorted(children)):
                if tag := tag_in(group.name):
                    yield Orphan("cgroup", str(group), tag, f"rmdir '{group}'", partial(remove_group, group))


# The folder for data sets on a mount of --disk-path.
FOLDER_ON_MOUNTS = "instance-sizing-advisor"
_UNFINISHED = ".unfinished-"


def unfinished_name(point: Path) -> Path:
    """The temporary path of `point` while it is being made."""
    return point.with_name(f"{point.name}{_UNFINISHED}{new_name()}")


def forget_unfinished(point: Path) -> None:
    """Remove unfinished versions of `point` that killed processes left, as far as possible."""
    left = unfinished_folders(point.parent, glob.escape(point.name))
    remove(orphan for orphan in left if orphan.owner.has_gone)


def orphan_folders(made_in: Path) -> Iterator[Orphan]:
    """Folders of processes: workers' scratch folders, and data sets half made in `made_in` or on a disk."""
    for folder in _matching(scratch_parent(), "advisor-*"):
        if tag := tag_in(folder.name):
            yield _orphan(folder, tag)
    # Network file systems are skipped, as they may hang.
    disks = [mount.point for mount in mounts_here() if mount.source.startswith("/dev/")]
    for parent in (made_in, *(disk / FOLDER_ON_MOUNTS for disk in disks)):
        yield from unfinished_folders(parent)


def unfinished_folders(parent: Path, name: str = "*") -> Iterator[Orphan]:
    """Unfinished versions of files and folders with this name in a folder."""
    for folder in _matching(parent, f"{name}{_UNFINISHED}advisor-*"):
        if tag := tag_in(folder.name.rpartition(_UNFINISHED)[2]):
            yield _orphan(folder, tag)


def _orphan(folder: Path, tag: OwnerTag) -> Orphan:
    return Orphan("folder", str(folder), tag, f"rm -r '{folder}'", partial(_remove, folder))


def _remove(folder: Path) -> None:
    """Remove a folder or file, but never one with a mount inside, which may be a user's disk."""
    if any(folder in (mount.point, *mount.point.parents) for mount in mounts_here()):
        raise MeasuringError("something is still mounted in it")
    with suppress(FileNotFoundError):
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()


def _matching(parent: Path, pattern: str) -> list[Path]:
    try:
        return sorted(parent.glob(pattern))
    except OSError:
        return []


_LOG = logging.getLogger(__name__)


class Stuck(Struct, frozen=True):
    """An orphan that could not be removed, and the reason."""

    orphan: Orphan
    reason: str


class Removed(Struct, frozen=True):
    """The removed orphans, and those that could not be removed."""

    gone: tuple[Orphan, ...]
    stuck: tuple[Stuck, ...]


def owner_is_me(tag: OwnerTag) -> bool:
    """True if the owner is this process, or the one that it works for."""
    return tag == own_tag()


def find_orphans(
    of_owner: Callable[[OwnerTag], bool] = lambda owner: owner.has_gone, made_in: Path | None = None
) -> list[Orphan]:
    """The orphans of owners that `of_owner` selects (by default those that have ended), in the order of
    removal.

    Processes come first, since they use the rest."""
    folders = orphan_folders(made_in or datasets_folder())
    every = chain(orphan_processes(), orphan_groups(), folders)
    return [orphan for orphan in every if of_owner(orphan.owner)]


def remove(orphans: Iterable[Orphan]) -> Removed:
    """Remove orphans one after the other, whether or not earlier ones could be removed."""
    gone, stuck = [], []
    for entry in orphans:
        try:
            entry.remove()
        except (OSError, MeasuringError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            stuck.append(Stuck(entry, reason or str(error)))
        else:
            gone.append(entry)
    return Removed(tuple(gone), tuple(stuck))


def clean_up() -> int:
    """Remove what killed sweeps left; returns the number. Orphans that stay are logged with a command."""
    removed = remove(find_orphans())
    for orphan, reason in ((entry.orphan, entry.reason) for entry in removed.stuck):
        text = "%s %s of a killed sweep cannot be removed (%s): %s"
        _LOG.warning(text, orphan.kind, orphan.name, reason, orphan.command)
    return len(removed.gone)


def give_back_own() -> int:
    """Remove everything that this process owns, for instance after an interrupt; returns the number. Nothing
    of that may still be in use."""
    return len(remove(find_orphans(owner_is_me)).gone)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def owning() -> Iterator[None]:
    """Mark everything started inside the block as owned by this process, and remove it afterwards.

    Marks are needed because an interrupt may come between the creation of something and the code that would
    release it."""
    before = os.environ.get(OWNER_VARIABLE)
    os.environ[OWNER_VARIABLE] = str(own_tag())
    try:
        yield
    finally:
        give_back_own()
        if before is None:
            os.environ.pop(OWNER_VARIABLE, None)
        else:
            os.environ[OWNER_VARIABLE] = before


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the end of the block; a second one acts at once.

    Use it to start processes, which print a traceback if their parent ends during their start, and to start
    Ray, which sets its signal handlers meanwhile and may lose an exception raised during its start, so that a
    driver is left without its Ray."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before: dict[int, Any]

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        if len(noted) > 1:
            _answer(before[number], number, frame)

    put = signal.signal

    def put_others(number: int, wanted: Any) -> Any:
        return wanted if number in _SIGNALS else put(number, wanted)

    before = {number: put(number, note) for number in _SIGNALS}
    signal.signal = put_others  # type: ignore[assignment]  # ignores handlers that a library sets
    try:
        yield
    finally:
        signal.signal = put
        for number, handler in before.items():
            put(number, handler)
    for number in noted[:1]:
        _answer(before[number], number, None)


def _answer(handler: Any, number: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(number, frame)
    elif handler is signal.SIG_DFL:
        os.kill(os.getpid(), number)
