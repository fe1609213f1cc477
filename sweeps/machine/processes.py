"""Processes: whether one runs, when it started, and one that ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

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
    """When it started, in clock ticks since boot; empty where that is not known."""
    fields = stat_fields(pid)
    return fields[_START_TIME] if fields else ""


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat after the command name: state is 0, ppid 1, utime 11, start time 19;
    empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


# Below a tenth of a core, neighbours are the machine's own housekeeping.
_HOUSEKEEPING_CORES = 0.10
_TOLERATED_SHARE = 0.05
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user nice system irq softirq steal


class Contention(Struct, frozen=True, kw_only=True):
    """Cores in use on the trial's CPUs over the measured window, by the trial and by others."""

    own_cores: float
    other_cores: float
    cpus: int
    vcpus: float

    @property
    def interfered(self) -> bool:
        """Whether others took CPU time that the trial would have used.

        They did when they used more than a tenth of a core and 5 % of the trial's vCPUs, no
        idle time was left on its CPUs, and the trial did not get its full vCPUs.
        """
        limit = max(_HOUSEKEEPING_CORES, _TOLERATED_SHARE * self.vcpus)
        full = self.own_cores >= (1 - _TOLERATED_SHARE) * self.vcpus
        idle = self.own_cores + self.other_cores < (1 - _TOLERATED_SHARE) * self.cpus
        return self.other_cores > limit and not full and not idle


def busy_seconds(cpus: Iterable[int], stat: Path = Path("/proc/stat")) -> float:
    """Time that the CPUs were not idle since boot, what the hypervisor took included."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        if name in wanted:
            total += sum(int(fields[index]) for index in _BUSY_FIELDS if index < len(fields))
    return total / ticks


def judge(*, busy: float, own: float, wall_seconds: float, cpus: int, vcpus: float) -> Contention:
    """The contention of a window in which `cpus` were busy and the trial's own part of it."""
    return Contention(
        own_cores=own / wall_seconds, other_cores=max(0.0, busy - own) / wall_seconds, cpus=cpus, vcpus=vcpus
    )
