"""CPUs, cores, caches and NUMA nodes. Parsing is apart from reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

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
