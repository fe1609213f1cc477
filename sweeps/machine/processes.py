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


def end_with_parent() -> None:
    """A killed parent must not leave this process running, which nobody waits for."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
