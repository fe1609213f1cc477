"""Processes: whether one runs, when it started, and one that ends with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
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


def end_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End a session of its own in order, then, after so many seconds, whatever did not listen."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    finally:
        # With a limit: a signal that meets `poll` between its taking a lock and its `try` leaves the lock
        # taken, and `wait()` would stand for ever.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


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


def oom_kills(proc: Path = Path("/proc")) -> int:
    """The processes that the kernel has killed for the machine's memory since boot; 0 where it is silent."""
    with suppress(OSError, ValueError, IndexError):
        return int((proc / "vmstat").read_text().split("oom_kill ")[1].split()[0])
    return 0


def killer_text(kills_before: int) -> str:
    """Who sent SIGKILL, by the kernel's count since then; to be put behind a process's ending."""
    if oom_kills() > kills_before:
        return "; the kernel ended processes meanwhile, as the machine's memory was full"
    return "; by somebody: the kernel ended none for memory meanwhile"


def start_ticks(pid: int) -> str:
    """When it started, in clock ticks since boot; empty where that is not known."""
    fields = stat_fields(pid)
    return fields[_START_TIME] if fields else ""


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on (ppid 1, utime 11, start 19); empty if gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


# Below a tenth of a core, neighbours are the machine's own housekeeping.
_HOUSEKEEPING_CORES = 0.10
_TOLERATED_SHARE = 0.05
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user nice system irq softirq steal


class Contention(Struct, frozen=True, kw_only=True):
    """Cores in use on the trial's CPUs over the measured window, by the trial and by all.

    `waited_cores` is what its threads waited for a CPU while they were ready to run, as the scheduler counts
    it (None: it does not), without what the trial's own quota held back; `sibling_cores` is what others used
    of the other hardware threads of its cores. `at_limit` says that the accelerator or the disk gave all that
    it gives: nothing lacked."""

    own_cores: float
    busy_cores: float
    cpus: int
    vcpus: float
    waited_cores: float | None = None
    sibling_cores: float = 0.0
    at_limit: bool = False

    @property
    def other_cores(self) -> float:
        """What others used; clock ticks finer than the kernel's count for nobody."""
        return max(0.0, self.busy_cores - self.own_cores)

    @property
    def interfered(self) -> bool:
        """Whether others took CPU time that the trial would have used, or half of its cores.

        Its threads wait for each other, too, and others may use what it leaves idle: they took no more than
        the smaller of what it waited and what they used."""
        limit = max(_HOUSEKEEPING_CORES, _TOLERATED_SHARE * self.vcpus)
        if self.at_limit:
            return False
        if self.sibling_cores > limit:
            return True
        full = self.own_cores >= (1 - _TOLERATED_SHARE) * self.vcpus
        if self.waited_cores is not None:
            return not full and min(self.waited_cores, self.other_cores) > limit
        idle = self.own_cores + self.other_cores < (1 - _TOLERATED_SHARE) * self.cpus
        return self.other_cores > limit and not full and not idle


def waited_seconds(pids: Iterable[int]) -> float | None:
    """What the threads of these processes waited for a CPU since they began; None where the kernel does not
    say (/proc/PID/task/TID/schedstat: ran, waited, both in nanoseconds)."""
    waited, counted = 0, False
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError, ValueError):
                waited += int(thread.read_text().split()[1])
                counted = True
    return waited / 1e9 if counted else None


def pressure(folder: Path = Path("/proc/pressure"), ending: str = "") -> dict[str, float]:
    """Seconds that some task waited for CPU, memory and disk since boot, or since a group (version 2, whose
    files end in ".pressure") was made; empty where the kernel does not count them."""
    seconds = {}
    for name in ("cpu", "memory", "io"):
        with suppress(OSError, IndexError, ValueError):
            some = (folder / f"{name}{ending}").read_text().split("total=")[1]
            seconds[name] = int(some.split()[0]) / 1e6
    return seconds


def busy_share(proc: Path = Path("/proc")) -> float:
    """The share of the last 10 s in which a task waited for a CPU; by the load where that is not counted."""
    with suppress(OSError, IndexError, ValueError):
        return float((proc / "pressure/cpu").read_text().split("avg10=")[1].split()[0]) / 100
    return min(1.0, max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1))


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
