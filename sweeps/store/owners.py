"""Who holds a lease: a process, known again also when it has gone and its number is reused."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sweeps.limits.usage import stat_fields

# Fields of /proc/PID/stat behind the name (proc(5)): state, and start time in clock ticks.
_STATE, _START_TIME = 0, 19
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One driver. `place` is the one boot and process namespace in which `pid` means it; empty
    where the system does not tell."""

    name: str
    host: str
    place: str
    pid: int
    started: str


def this_process() -> Owner:
    """A new owner: another one at every call, so that a driver is told from the one before."""
    host, pid = socket.gethostname(), os.getpid()
    return Owner(
        name=f"{host[:100]}:{pid}:{secrets.token_hex(8)}",
        host=host[:255],
        place=_place(),
        pid=pid,
        started=_started(pid),
    )


def has_gone(place: str, pid: int, started: str) -> bool:
    """Whether that process surely runs no more; of other machines and containers, never."""
    return bool(place) and place == _place() and not _runs(pid, started)


def _runs(pid: int, started: str) -> bool:
    fields = stat_fields(pid)
    if fields:
        return fields[_START_TIME] == started and fields[_STATE] not in ("Z", "X")
    try:  # /proc may hide the processes of other users
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> str:
    fields = stat_fields(pid)
    return fields[_START_TIME] if fields else ""


@cache
def _place() -> str:
    try:
        return f"{_BOOT.read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
