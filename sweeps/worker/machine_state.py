"""The state of a machine that may change under a trial: clocks, heat, stolen time.

Standard library only. What the machine does not report is left out; asking costs about a millisecond.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

State = dict[str, Any]
_ROOT = Path("/")
_STEAL = 7  # of /proc/stat: user nice system idle iowait irq softirq steal
# A wall clock that is slewed gains at most 0.05 %; a step beyond this was set by somebody.
_TOLERATED_SECONDS = 0.5
_TOLERATED_SHARE = 0.001


def machine_state(cpus: Sequence[int], root: Path = _ROOT) -> State:
    """The present state."""
    state: State = {
        "wall_seconds": time.time(),
        "monotonic_seconds": time.monotonic(),
        "running_seconds": _boot_seconds(),
        "cpu_mhz": _cpu_mhz(cpus, root),
        "steal_seconds": _steal_seconds(cpus, root),
        "cpu_thermal_throttles": _thermal_throttles(cpus, root),
    }
    return {name: value for name, value in state.items() if value is not None}


def changes(before: Mapping[str, Any], after: Mapping[str, Any], cpus: int) -> dict[str, Any]:
    """Changes between two states, for a measurement's environment: clocks at both ends, the share of CPU
    time that the hypervisor took, and the jump of the wall clock."""
    elapsed = after["monotonic_seconds"] - before["monotonic_seconds"]
    result: dict[str, Any] = {
        "cpu_mhz": _ends(before, after, "cpu_mhz"),
        "steal_share": _share(_grown(before, after, "steal_seconds"), elapsed * cpus),
        "cpu_thermal_throttles": _grown(before, after, "cpu_thermal_throttles") or None,
        "wall_clock_jump_seconds": _jump(before, after, "wall_seconds", elapsed),
        "suspended_seconds": _jump(before, after, "running_seconds", elapsed),
    }
    return {name: value for name, value in result.items() if value is not None}


def _boot_seconds() -> float | None:
    """Since boot, times of suspension too, which the monotonic clock leaves out (Linux)."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime(clock)


def _cpu_mhz(cpus: Sequence[int], root: Path) -> float | None:
    """Mean present clock of the CPUs: by cpufreq, else as /proc/cpuinfo has it."""
    values = [_integer(root / f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq") for n in cpus]
    existing = [value / 1000 for value in values if value]
    return statistics.fmean(existing) if existing else _cpuinfo_mhz(cpus, root)


def _cpuinfo_mhz(cpus: Sequence[int], root: Path) -> float | None:
    rows = [line.partition(":") for line in _lines(root / "proc/cpuinfo")]
    answer = [float(value) for key, _, value in rows if key.strip() == "cpu MHz"]
    existing = [answer[cpu] for cpu in cpus if cpu < len(answer)]
    return statistics.fmean(existing) if existing else None


def _steal_seconds(cpus: Sequence[int], root: Path) -> float | None:
    wanted = {f"cpu{cpu}" for cpu in cpus}
    rows = [line.split() for line in _lines(root / "proc/stat")]
    ticks = [int(row[1 + _STEAL]) for row in rows if row and row[0] in wanted and len(row) > 8]
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def _thermal_throttles(cpus: Sequence[int], root: Path) -> int | None:
    values = [
        _integer(root / f"sys/devices/system/cpu/cpu{n}/thermal_throttle/core_throttle_count") for n in cpus
    ]
    existing = [value for value in values if value is not None]
    return sum(existing) if existing else None


def _integer(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _ends(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> list[float] | None:
    return [before[name], after[name]] if name in before and name in after else None


def _grown(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> float | None:
    return after[name] - before[name] if name in before and name in after else None


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or whole <= 0 else part / whole


def _jump(before: Mapping[str, Any], after: Mapping[str, Any], name: str, elapsed: float) -> float | None:
    """Seconds that another clock advanced beyond the monotonic clock (negative: fewer); None where they
    agree."""
    grown = _grown(before, after, name)
    if grown is None or abs(grown - elapsed) <= _TOLERATED_SECONDS + _TOLERATED_SHARE * elapsed:
        return None
    return grown - elapsed
