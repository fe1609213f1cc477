"""What a container or a batch system leaves of the machine: CPU quota and memory limit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from sweeps.trial.limits.hierarchies import v1_parents, v2_parents

_PROC = Path("/proc/self")
_MEMINFO = Path("/proc/meminfo")
# Version 1 writes "no limit" as the pages that fit in 63 bits.
_NO_LIMIT_BYTES = 2**60


def parse_quota_v2(text: str) -> float:
    """cpu.max: '150000 100000' -> 1.5 CPUs; 'max 100000' -> inf."""
    quota, _, period = text.strip().partition(" ")
    return math.inf if quota == "max" else int(quota) / int(period or 100_000)


def parse_quota_v1(quota: str, period: str) -> float:
    """cpu.cfs_quota_us and cpu.cfs_period_us: '150000', '100000' -> 1.5; '-1' -> inf."""
    return math.inf if int(quota) <= 0 else int(quota) / int(period)


def parse_memory_limit(text: str) -> float:
    """memory.max or memory.limit_in_bytes in bytes; inf where they mean no limit."""
    value = math.inf if text.strip() == "max" else float(text)
    return math.inf if value >= _NO_LIMIT_BYTES else value


def parse_available_bytes(meminfo: str) -> float:
    """MemAvailable of /proc/meminfo in bytes; inf where it is missing."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return math.inf


def cpu_quota(proc: Path = _PROC) -> float:
    """CPUs that the cgroups of this process may use on average; inf without a limit."""
    return min(
        (quota for group in _groups(proc, "cpu") if (quota := _quota(group))), default=math.inf
    )


def usable_memory_bytes(proc: Path = _PROC, meminfo: Path = _MEMINFO) -> float:
    """What may still be allocated: memory that is available, within the cgroups' limits."""
    physical = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    rooms = [_memory_room(group) for group in _groups(proc, "memory")]
    return min([physical, parse_available_bytes(_read(meminfo) or ""), *rooms])


def _groups(proc: Path, controller: str) -> Iterator[Path]:
    """The own groups of both versions and all above them: the tightest limit holds."""
    own = v2_parents(proc)[:1] + [
        path for name, path in v1_parents(proc).items() if name == controller
    ]
    for group in own:
        yield group
        yield from (above for above in group.parents if (above / "cgroup.procs").exists())


def _quota(group: Path) -> float | None:
    if (text := _read(group / "cpu.max")) is not None:
        return parse_quota_v2(text)
    quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
    return parse_quota_v1(quota, period) if quota and period else None


def _memory_room(group: Path) -> float:
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        most, used = _read(group / limit), _read(group / usage)
        if most and used:
            return parse_memory_limit(most) - float(used)
    return math.inf


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
