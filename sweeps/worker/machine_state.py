"""What a machine can change under a trial: clocks, heat, stolen time, and its own clock.

Standard library only. What the machine does not report is left out; asking costs about a
millisecond, a GPU about a tenth of a second.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.errors import MeasuringError
from sweeps.machine import nvidia_smi

State = dict[str, Any]
_ROOT = Path("/")
_STEAL = 7  # of /proc/stat: user nice system idle iowait irq softirq steal
# A wall clock that is slewed gains at most 0.05 %; a step beyond this was set by somebody.
_TOLERATED_SECONDS = 0.5
_TOLERATED_SHARE = 0.001
# NVML's nvmlClocksEventReason constants (nvml.h); those of no harm (idle, chosen clocks) are left.
_HELD_BACK_BITS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
_HELD_BACK_COUNTERS = {
    "power_cap_us": "power cap",
    "driver_thermal_us": "heat (driver)",
    "hardware_thermal_us": "heat (hardware)",
    "power_brake_us": "power brake",
}


def machine_state(cpus: Sequence[int], gpu_uuid: str | None = None, root: Path = _ROOT) -> State:
    """The present state. `gpu_uuid` (as torch has it) asks nvidia-smi about that GPU."""
    state: State = {
        "wall_seconds": time.time(),
        "monotonic_seconds": time.monotonic(),
        "running_seconds": _boot_seconds(),
        "cpu_mhz": _cpu_mhz(cpus, root),
        "steal_seconds": _steal_seconds(cpus, root),
        "cpu_thermal_throttles": _thermal_throttles(cpus, root),
        "gpu": gpu_state(gpu_uuid) if gpu_uuid else None,
    }
    return {name: value for name, value in state.items() if value is not None}


def changes(before: Mapping[str, Any], after: Mapping[str, Any], cpus: int) -> dict[str, Any]:
    """What differs, for a measurement's environment: clocks at both ends, the share of CPU time
    that the hypervisor took, what held the GPU back, and how far the wall clock jumped."""
    elapsed = after["monotonic_seconds"] - before["monotonic_seconds"]
    result: dict[str, Any] = {
        "cpu_mhz": _ends(before, after, "cpu_mhz"),
        "steal_share": _share(_grown(before, after, "steal_seconds"), elapsed * cpus),
        "cpu_thermal_throttles": _grown(before, after, "cpu_thermal_throttles") or None,
        "wall_clock_jump_seconds": _jump(before, after, "wall_seconds", elapsed),
        "suspended_seconds": _jump(before, after, "running_seconds", elapsed),
    }
    if "gpu" in before and "gpu" in after:
        result["gpu_state"] = [before["gpu"], after["gpu"]]
        result["gpu_held_back_by"] = throttle_reasons(before["gpu"], after["gpu"])
    return {name: value for name, value in result.items() if value is not None}


def gpu_state(
    uuid: str, query: Callable[[dict[str, str]], list[nvidia_smi.Facts]] = nvidia_smi.query
) -> nvidia_smi.Facts | None:
    """Clocks, heat and what holds them back, of one GPU; None where nvidia-smi does not answer."""
    try:
        gpus = query(nvidia_smi.PACE_FIELDS)
    except MeasuringError:
        return None
    plain = uuid.removeprefix("GPU-")
    named = [gpu for gpu in gpus if str(gpu.get("uuid")).removeprefix("GPU-") == plain]
    # Inside a container the only GPU may go by another name (a slice of it).
    result = named or (gpus if len(gpus) == 1 else [])
    return result[0] if result else None


def throttle_reasons(before: nvidia_smi.Facts, after: nvidia_smi.Facts) -> list[str]:
    """What lowered the clocks: by counters that grew, else by what is active at the end."""
    grown = [
        cause
        for name, cause in _HELD_BACK_COUNTERS.items()
        if _number(after.get(name)) > _number(before.get(name))
    ]
    text = str(after.get("held_back_bits_now") or after.get("held_back_bits") or "0")
    try:
        bits = int(text, 16)
    except ValueError:
        bits = 0
    return sorted({*grown, *(cause for bit, cause in _HELD_BACK_BITS.items() if bits & bit)})


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _boot_seconds() -> float | None:
    """Since boot, times of suspension too, which the monotonic clock leaves out (Linux)."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime(clock)


def _cpu_mhz(cpus: Sequence[int], root: Path) -> float | None:
    """Mean present clock of the CPUs: by cpufreq, else as /proc/cpuinfo has it."""
    values = [_integer(root / f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_cur_freq")
              for n in cpus]  # fmt: skip
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
        _integer(root / f"sys/devices/system/cpu/cpu{n}/thermal_throttle/core_throttle_count")
        for n in cpus
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


def _jump(
    before: Mapping[str, Any], after: Mapping[str, Any], name: str, elapsed: float
) -> float | None:
    """How much more (or less) than the monotonic clock another clock advanced; None: as it."""
    grown = _grown(before, after, name)
    if grown is None or abs(grown - elapsed) <= _TOLERATED_SECONDS + _TOLERATED_SHARE * elapsed:
        return None
    return grown - elapsed
