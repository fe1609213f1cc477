"""The state of a machine that may change under a trial: clocks, heat, stolen time.

Standard library only. What the machine does not report is left out; asking costs about a millisecond.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from advisor.sweeps.machine.mounts import text_of

State = dict[str, Any]
_ROOT = Path("/")
_STEAL = 7  # of /proc/stat: user nice system idle iowait irq softirq steal
# A wall clock that is slewed gains at most 0.05 %; a step beyond this was set by somebody.
_TOLERATED_SECONDS = 0.5
_TOLERATED_SHARE = 0.001


def machine_state(cpus: Sequence[int], root: Path = _ROOT) -> State:
    """The present state."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    rows = [line.split() for line in text_of(root / "proc/stat").splitlines()]
    stolen = [int(row[1 + _STEAL]) for row in rows if row and row[0] in wanted and len(row) > 8]
    throttles = _integers(cpus, root, "thermal_throttle/core_throttle_count")
    # Since boot, times of suspension too, which the monotonic clock leaves out (Linux).
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    state: State = {
        "wall_seconds": time.time(),
        "monotonic_seconds": time.monotonic(),
        "running_seconds": None if boot is None else time.clock_gettime(boot),
        "cpu_mhz": _cpu_mhz(cpus, root),
        "steal_seconds": sum(stolen) / os.sysconf("SC_CLK_TCK") if stolen else None,
        "cpu_thermal_throttles": sum(throttles) if throttles else None,
    }
    return {name: value for name, value in state.items() if value is not None}


def changes(before: Mapping[str, Any], after: Mapping[str, Any], cpus: int) -> dict[str, Any]:
    """Changes between two states, for a measurement's environment: clocks at both ends, the share of CPU
    time that the hypervisor took, and the jump of the wall clock."""
    elapsed = after["monotonic_seconds"] - before["monotonic_seconds"]
    stolen, has_clock = _grown(before, after, "steal_seconds"), "cpu_mhz" in before.keys() & after.keys()
    result: dict[str, Any] = {
        "cpu_mhz": [before["cpu_mhz"], after["cpu_mhz"]] if has_clock else None,
        "steal_share": None if stolen is None or elapsed * cpus <= 0 else stolen / (elapsed * cpus),
        "cpu_thermal_throttles": _grown(before, after, "cpu_thermal_throttles") or None,
        "wall_clock_jump_seconds": _jump(before, after, "wall_seconds", elapsed),
        "suspended_seconds": _jump(before, after, "running_seconds", elapsed),
    }
    return {name: value for name, value in result.items() if value is not None}


def _cpu_mhz(cpus: Sequence[int], root: Path) -> float | None:
    """Mean present clock of the CPUs: by cpufreq, else as /proc/cpuinfo has it."""
    if values := [value / 1000 for value in _integers(cpus, root, "cpufreq/scaling_cur_freq") if value]:
        return statistics.fmean(values)
    rows = [line.partition(":") for line in text_of(root / "proc/cpuinfo").splitlines()]
    answer = [float(value) for key, _, value in rows if key.strip() == "cpu MHz"]
    existing = [answer[cpu] for cpu in cpus if cpu < len(answer)]
    return statistics.fmean(existing) if existing else None


def _integers(cpus: Sequence[int], root: Path, file: str) -> list[int]:
    """The number in that file of each CPU that has one."""
    values = []
    for cpu in cpus:
        with suppress(ValueError):
            values.append(int(text_of(root / f"sys/devices/system/cpu/cpu{cpu}/{file}")))
    return values


def _grown(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> float | None:
    return after[name] - before[name] if name in before and name in after else None


def _jump(before: Mapping[str, Any], after: Mapping[str, Any], name: str, elapsed: float) -> float | None:
    """Seconds that another clock advanced beyond the monotonic clock (negative: fewer); None where they
    agree."""
    grown = _grown(before, after, name)
    if grown is None or abs(grown - elapsed) <= _TOLERATED_SECONDS + _TOLERATED_SHARE * elapsed:
        return None
    return grown - elapsed
