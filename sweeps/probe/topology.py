"""Cores and NUMA nodes. Parsing is apart from reading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_NODES = Path("/sys/devices/system/node")


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
