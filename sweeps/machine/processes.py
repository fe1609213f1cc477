"""Finds whether a process runs, when it started and what disturbs it; ends processes."""

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

# Indices of fields in /proc/PID/stat after the name (proc(5)): state, and start time in clock ticks.
_STATE, _START_TIME = 0, 19
_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Let the kernel send this process a signal when its parent dies. Give `parent`, the parent's process id,
    if it may have died already: then this process ends at once."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        os._exit(128 + number)


def end_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Send SIGTERM to the process group that `process` leads, and SIGKILL after so many seconds."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    finally:
        # `wait` needs a limit: a signal that interrupts `poll` between taking its lock and its `try` leaves
        # the lock taken, and `wait()` would never return.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def is_running(pid: int, start_time: str) -> bool:
    """True if the process with this id and start time still runs; a zombie does not."""
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


def oom_kills() -> int:
    """The number of processes that the kernel has killed for lack of memory since boot; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/vmstat").read_text().split("oom_kill ")[1].split()[0])
    return 0


def killer_text(kills_before: int) -> str:
    """The text that says who sent SIGKILL, by the kernel's count since `kills_before`; ends a sentence."""
    if oom_kills() > kills_before:
        return "; the kernel ended processes meanwhile, as the machine's memory was full"
    return "; by somebody: the kernel ended none for memory meanwhile"


def start_ticks(pid: int) -> str:
    """The start time of a process in clock ticks since boot; "" if unknown."""
    fields = stat_fields(pid)
    return fields[_START_TIME] if fields else ""


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on (ppid 1, utime 11, start 19); empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


# A load of less than a tenth of a core is housekeeping of the machine.
_HOUSEKEEPING_CORES = 0.10
_TOLERATED_SHARE = 0.05
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)  # user nice system irq softirq steal


class Contention(Struct, frozen=True, kw_only=True):
    """Cores in use on the trial's CPUs over the measured window, by the trial and by all processes.

    `waited_cores` is how much the trial's threads waited for a CPU when ready to run, without waits for the
    trial's quota (None: the scheduler does not count it). `sibling_cores` is other processes' use of the
    other hardware threads of its cores. `at_limit`: the accelerator or the disk ran at its limit, so that no
    CPU time was missing."""

    own_cores: float
    busy_cores: float
    cpus: int
    vcpus: float
    waited_cores: float | None = None
    sibling_cores: float = 0.0
    at_limit: bool = False

    @property
    def other_cores(self) -> float:
        """Cores that other processes used; never below 0, which rounding of clock ticks could cause."""
        return max(0.0, self.busy_cores - self.own_cores)

    @property
    def interfered(self) -> bool:
        """True if other processes took CPU time from the trial, or hardware threads of its cores.

        The trial's threads also wait for each other, and other processes may use CPUs that it leaves idle. So
        they took at most the smaller of its waits and their use."""
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
    """Seconds that the threads of these processes have waited for a CPU; None if the kernel does not count
    them (/proc/PID/task/TID/schedstat: ran, waited, both in nanoseconds)."""
    waited, counted = 0, False
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError, ValueError):
                waited += int(thread.read_text().split()[1])
                counted = True
    return waited / 1e9 if counted else None


def pressure(folder: Path = Path("/proc/pressure"), ending: str = "") -> dict[str, float]:
    """Seconds that some task waited for CPU, memory and disk since boot, or since a cgroup of version 2 (with
    files ending in ".pressure") was made; empty if the kernel does not count them."""
    seconds = {}
    for name in ("cpu", "memory", "io"):
        with suppress(OSError, IndexError, ValueError):
            some = (folder / f"{name}{ending}").read_text().split("total=")[1]
            seconds[name] = int(some.split()[0]) / 1e6
    return seconds


def busy_share(proc: Path = Path("/proc")) -> float:
    """The share of the last 10 s in which a task waited for a CPU, estimated from the load if uncounted."""
    with suppress(OSError, IndexError, ValueError):
        return float((proc / "pressure/cpu").read_text().split("avg10=")[1].split()[0]) / 100
    return min(1.0, max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1))


def busy_seconds(cpus: Iterable[int], stat: Path = Path("/proc/stat")) -> float:
    """CPU seconds since boot that these CPUs were not idle, including time that the hypervisor took."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for line in stat.read_text().splitlines():
        name, *fields = line.split()
        if name in wanted:
            total += sum(int(fields[index]) for index in _BUSY_FIELDS if index < len(fields))
    return total / ticks
