"""Processes: whether one runs, when it started, and one that ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

# Fields of /proc/PID/stat behind the name (proc(5)): state, and start time in clock ticks.
_STATE, _START_TIME = 0, 19
_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int = signal.SIGKILL, parent: int | None = None) -> None:
    """A killed parent must not leave this process running, which nobody waits for: the kernel sends
    it that signal. `parent` is the parent's process id, where it may have died already."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        os._exit(128 + number)


def is_running(pid: int, start_time: str) -> bool:
    """Whether that very process runs; one that waits to be collected does not."""
    fields = stat_fields(pid)
    if fields:
        return fields[_START_TIME] == start_time and fields[_STATE] not in ("Z", "X")
    try:  # /proc may hide the processes of other users
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def start_ticks(pid: int) -> str:
    """When it started, in clock ticks since boot; empty where that cannot be told."""
    fields = stat_fields(pid)
    return fields[_START_TIME] if fields else ""


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat after the command name: state is 0, ppid 1, utime 11, start time 19;
    empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
