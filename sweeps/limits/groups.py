"""Directories of cgroups: named after their owner, emptied and removed whatever happens."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from advisor.errors import MeasuringError
from sweeps.limits.usage import stat_fields

_START_TIME = 19
_NAME = re.compile(r"advisor-(\d+)-(\d+)-\d+$")
_serial = itertools.count()


def new_group_name() -> str:
    """`advisor-PID-STARTTIME-SERIAL`: says whose it is, also after that process has gone."""
    pid = os.getpid()
    fields = stat_fields(pid)
    return f"advisor-{pid}-{fields[_START_TIME] if fields else 0}-{next(_serial)}"


def is_stale(name: str) -> bool:
    """Whether a group of ours belongs to a process that no longer runs."""
    match = _NAME.match(name)
    if not match:
        return False
    fields = stat_fields(int(match.group(1)))
    return not fields or fields[_START_TIME] != match.group(2)


def remove_stale_groups(parents: Iterable[Path]) -> int:
    """Remove what killed sweeps left behind (their processes too); returns how many groups."""
    removed = 0
    for parent in parents:
        for group in sorted(parent.glob("advisor-*")):
            if is_stale(group.name):
                remove_group(group)
                removed += 1
    return removed


def remove_abandoned_groups(roots: Iterable[Path]) -> int:
    """Remove stale groups anywhere beneath `roots`, where other sessions made them.

    Only empty ones: in another container's group the owner's number means another process, and
    whoever is inside may be alive.
    """
    stale = [g for root in roots for g in root.rglob("advisor-*") if is_stale(g.name)]
    empty = [group for group in stale if group.is_dir() and not _members(group)]
    for group in empty:
        with suppress(OSError):
            group.rmdir()
    return len(empty)


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
        except OSError as error:
            if time.monotonic() > deadline:
                raise MeasuringError(f"cannot remove the cgroup {group}: {error}") from error
            time.sleep(0.02)


def remove_stale_folders(parent: Path) -> int:
    """Remove folders of that name that killed sweeps of this user left; returns how many.

    Nothing where /proc does not tell who still runs (macOS).
    """
    if not stat_fields(os.getpid()):
        return 0
    stale = [
        folder
        for folder in parent.glob("advisor-*")
        if is_stale(folder.name) and folder.lstat().st_uid == os.getuid()
    ]
    for folder in stale:
        shutil.rmtree(folder, ignore_errors=True)
    return len(stale)


def _members(group: Path) -> list[int]:
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
