"""The room that data sets take on a machine's disk: the oldest goes where a new one needs it.

Each has a folder with what it takes in `ABOUT`, one of the same name with `FILLING` while it is
filled, and a file with `LOCK` that is locked by who fills it alone and by all who read it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from advisor.errors import DataError, UsageError
from advisor.files import write_whole
from advisor.messages import Message
from advisor.records import asdict

ABOUT, LOCK, FILLING = "about.json", ".lock", ".filling"
_GONE = ".gone"
_LEFT_FREE_SHARE = 0.05
_GIB = 2**30


class Needs(Struct, frozen=True):
    """The room that a data set takes on the disk, and the part of it still to come while it is filled."""

    bytes: int
    missing_bytes: int = 0


def make_room(entry: Path, needs: Needs) -> None:
    """Remove what was not used for longest until what is missing fits on the disk, and the whole
    data set into `ADVISOR_DATA_CACHE_GIB`; never what is read or filled now. What others fill at
    the time counts as if it were here."""
    root, limit_bytes, own = entry.parent, _limit_bytes(), (entry.name, entry.name + FILLING)
    with (root / f".room{LOCK}").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for gone in root.glob(f"*{_GONE}"):
            shutil.rmtree(gone, ignore_errors=True)
        others = [path for path in root.iterdir() if path.is_dir() and path.name not in own]
        for other in [*sorted(others, key=_last_used), None]:
            taken = [_needs_of(path) for path in others]
            disk = shutil.disk_usage(root)
            free = disk.free - sum(each.missing_bytes for each in taken)
            fits = needs.missing_bytes <= free - _LEFT_FREE_SHARE * disk.total
            if fits and sum(each.bytes for each in taken) + needs.bytes <= limit_bytes:
                write_whole(entry.with_name(entry.name + FILLING) / ABOUT, json.dumps(asdict(needs)))
                return
            if other and _removed(other):
                others.remove(other)
    raise DataError(
        "{whole:mib} do not fit into '{folder}' ({free:mib} free, the cache may take {limit})",
        whole=needs.bytes / 2**20,
        folder=root,
        free=max(0, free) / 2**20,
        limit=f"{limit_bytes / _GIB:g} GiB" if limit_bytes < math.inf else Message("all of it"),
        hint="name a larger disk with ADVISOR_DATA_CACHE, or raise ADVISOR_DATA_CACHE_GIB",
    )


def _limit_bytes() -> float:
    text = os.environ.get("ADVISOR_DATA_CACHE_GIB", "")
    try:
        limit = float(text or "inf")
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise UsageError(
            "ADVISOR_DATA_CACHE_GIB is no size: '{text}'", text=text, hint="write a number of GiB, as 200"
        )
    return limit * _GIB


def _last_used(entry: Path) -> float:
    """0 for what was never finished, or is nothing of ours."""
    with suppress(OSError):
        return (entry / ABOUT).stat().st_mtime
    return 0.0


def _needs_of(entry: Path) -> Needs:
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads((entry / ABOUT).read_bytes())
        filled_now = entry.name.endswith(FILLING) and _is_locked(entry)
        return Needs(int(about["bytes"]), about["missing_bytes"] if filled_now else 0)
    return Needs(0)


def _lock_of(entry: Path) -> Path:
    return entry.with_name(entry.name.removesuffix(FILLING) + LOCK)


def _is_locked(entry: Path) -> bool:
    with _lock_of(entry).open("r+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _removed(entry: Path) -> bool:
    """Whether it could be: somebody may read it."""
    try:
        with _lock_of(entry).open("r+b") as lock:  # without one it is none of ours
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = entry.with_name(f"{entry.name}{_GONE}")
            entry.rename(gone)
    except OSError:
        return False
    shutil.rmtree(gone, ignore_errors=True)
    return True
