"""Empties and removes a cgroup, whatever happens."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from advisor.errors import MeasuringError


def remove_group(group: Path, *, patience_seconds: float = 10.0) -> None:
    """Kill what still runs inside, and remove the group; `MeasuringError` if it stays."""
    deadline = time.monotonic() + patience_seconds
    while group.exists():
        for pid in pids_of(group):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except PermissionError:
            raise
        except OSError as error:
            if time.monotonic() > deadline:
                raise MeasuringError(
                    "cannot remove the cgroup {group}: {error}", group=group, error=error
                ) from error
            time.sleep(0.02)


def pids_of(group: Path) -> list[int]:
    """The processes in a group. Never 0: that is one which this namespace does not see, and for
    `kill` all of ours."""
    try:
        pids = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
    return [pid for pid in pids if pid > 0]
