"""CPUs, cores, caches and NUMA nodes, and what a container or a batch system leaves of them.

Parsing is apart from reading."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeps.trial.limits.hierarchies import v1_parents, v2_parents

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")
_KIB_PER_UNIT = {"K": 1, "M": 1024, "G": 1024**2}


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache as one CPU sees it; `shared_by` are all CPUs that share it."""

    level: int
    kind: str
    size_kib: int
    shared_by: tuple[int, ...]


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """'0-2,8' -> (0, 1, 2, 8); '' -> (). ValueError for anything else."""
    cpus: list[int] = []
    for span in filter(None, text.strip().split(",")):
        first, _, last = span.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def parse_size_kib(text: str) -> int:
    """'32K' -> 32, '16M' -> 16384. ValueError for anything else."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    if unit not in _KIB_PER_UNIT:
        raise ValueError(f"'{text}' is not a size of a cache")
    return int(number) * _KIB_PER_UNIT[unit]


def threads_first_by_core(cores: Mapping[int, object]) -> list[int]:
    """CPUs ordered so that every core gets its first hardware thread before any its second.

    `cores` names the physical core of each CPU.
    """
    seen: dict[object, int] = {}
    ranked = []
    for cpu in sorted(cores):
        rank = seen.get(cores[cpu], 0)
        seen[cores[cpu]] = rank + 1
        ranked.append((rank, cpu))
    return [cpu for _, cpu in sorted(ranked)]


def thread_counts(cores: int, threads: int) -> list[int]:
    """1, 2, 4, ... up to all hardware threads, with the number of cores among them."""
    powers = {2**power for power in range(threads.bit_length()) if 2**power <= threads}
    return sorted(powers | {min(cores, threads), threads})


def read_caches(cpu: int, root: Path = _CPUS) -> list[Cache]:
    """The caches of one CPU; those that sysfs does not describe in full are left out."""
    caches = []
    for index in sorted((root / f"cpu{cpu}" / "cache").glob("index[0-9]*")):
        try:
            caches.append(
                Cache(
                    level=int((index / "level").read_text()),
                    kind=(index / "type").read_text().strip().lower(),
                    size_kib=parse_size_kib((index / "size").read_text()),
                    shared_by=parse_cpu_list((index / "shared_cpu_list").read_text()),
                )
            )
        except (OSError, ValueError):
            continue
    return caches


def distinct_caches(cpus: Iterable[int], root: Path = _CPUS) -> dict[Cache, int]:
    """Each cache of the CPUs once; how often one of its shape exists among them.

    The key is a shape: its `shared_by` is that of the first of its kind.
    """
    seen = {cache for cpu in cpus for cache in read_caches(cpu, root)}
    shapes: dict[tuple[int, str, int], list[Cache]] = {}
    for cache in sorted(seen, key=lambda entry: (entry.level, entry.kind, entry.shared_by)):
        shapes.setdefault((cache.level, cache.kind, cache.size_kib), []).append(cache)
    return {members[0]: len(members) for members in shapes.values()}


def last_level_cache_mib(cpus: Iterable[int], root: Path = _CPUS) -> float:
    """All caches of the last level together; 0.0 where sysfs is silent."""
    caches = distinct_caches(cpus, root)
    last = max((cache.level for cache in caches), default=0)
    sizes = (cache.size_kib * count for cache, count in caches.items() if cache.level == last)
    return sum(sizes) / 1024


def read_numa_nodes(root: Path = _NODES) -> list[dict[str, object]]:
    """CPUs and memory of each NUMA node; empty where the kernel has none."""
    nodes: list[dict[str, object]] = []
    for place in sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        try:
            nodes.append(
                {
                    "node": int(place.name[4:]),
                    "cpus": (place / "cpulist").read_text().strip(),
                    "memory_mib": parse_node_memory_mib((place / "meminfo").read_text()),
                }
            )
        except (OSError, ValueError):
            continue
    return nodes


def parse_node_memory_mib(text: str) -> float:
    """The MemTotal line of a node's meminfo: 'Node 0 MemTotal: 24684084 kB'."""
    for line in text.splitlines():
        if "MemTotal:" in line:
            return int(line.split()[-2]) / 1024
    raise ValueError("no MemTotal")


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
