"""Caches of the CPUs, and how large the machine is that a trial was carved from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.sweeps.machine.size import total_memory_mib

_CPUS = Path("/sys/devices/system/cpu")
_KIB_PER_UNIT = {"K": 1, "M": 1024, "G": 1024**2}


class Cache(Struct, frozen=True):
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
    return sum(cache.size_kib for cache in _last_caches(cpus, root)) / 1024


def carved_from(cpus: Iterable[int], root: Path = _CPUS) -> dict[str, Any]:
    """The machine's CPUs and memory, and the last caches that these CPUs can fill, with how many
    CPUs share them: a rented machine of the trial's size has less of the cache, a carved one has
    what its neighbours leave. The cache is left out where sysfs is silent."""
    caches = _last_caches(cpus, root)
    facts = {"cpus": os.cpu_count(), "memory_mib": total_memory_mib()}
    if not caches:
        return facts
    return facts | {
        "last_level_cache_mib": sum(cache.size_kib for cache in caches) / 1024,
        "last_level_cache_cpus": len({cpu for cache in caches for cpu in cache.shared_by}),
    }


def _last_caches(cpus: Iterable[int], root: Path) -> list[Cache]:
    seen = {cache for cpu in cpus for cache in read_caches(cpu, root)}
    last = max((cache.level for cache in seen), default=0)
    return [cache for cache in seen if cache.level == last]
