"""What the second hardware thread of a core adds to the first, from marks of whole servers.

PassMark's CPU mark runs eight unlike tests on all hardware threads (compression, encryption,
SSE, floating point, sorting ..), its single-thread mark a mix of them on one. With the scaling
law `u(n) = n / (1 + a (n - 1))` of n = c (1 + y) useful cores,

    c x single-thread mark / CPU mark = (1 - a) / (k (1 + y)) + (a / k) c,

k being what one thread's CPU mark is over its single-thread mark. The part that does not grow
with c is larger by 1 + y where a core has one thread: servers of the same maker show y.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

Row = Mapping[str, str]
# Beyond this memory and caches, not cores, tell the marks apart.
_LARGEST_CORES = 16
# Fewer sizes of a CPU say little about how it grows with its cores.
_FEWEST_SIZES = 3
# Xen guests of 2006 to 2008, whose vCPUs are shares of a core.
_SHARED_CORES = ("t1.", "m1.", "m2.", "c1.")


class Server(Struct, frozen=True):
    """A measured server: whole `cores`, and cores x single-thread mark / CPU mark."""

    cpu: str
    maker: str
    cores: int
    threaded: bool
    inverse: float


def measured_servers(scores: Sequence[Row], types: Mapping[str, Row]) -> list[Server]:
    """Those with both marks and a core count; `cpu_model` is a plain name."""
    result = []
    for row in scores:
        single, every = float(row["passmark_singlethread"]), float(row["passmark_cpu_mark"])
        type_ = types.get(row["server"])
        if type_ is None or min(single, every) <= 0 or row["server"].startswith(_SHARED_CORES):
            continue
        cores, cpu = int(type_["cores"]), row["cpu_model"]
        threaded = int(row["vcpus"]) > cores
        result.append(Server(cpu, cpu.split()[0], cores, threaded, cores * single / every))
    return result


def second_thread_yields(servers: Sequence[Server]) -> dict[str, float]:
    """Yield of each CPU whose maker also has cores with one thread."""
    small = [server for server in servers if server.cores <= _LARGEST_CORES]
    slope = _common_slope([entry for entry in small if _has_two_kinds(entry, small)])
    starts: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for entry in small:
        starts[entry.cpu, entry.maker, entry.threaded].append(entry.inverse - slope * entry.cores)
    medians = {key: statistics.median(values) for key, values in starts.items()}
    yields = {}
    for (cpu, maker, threaded), start in medians.items():
        whole = [value for key, value in medians.items() if key[1:] == (maker, False)]
        if threaded and whole:
            yields[cpu] = statistics.median(whole) / start - 1
    return yields


def usual_yield(yields: Mapping[str, float]) -> float:
    """The median over CPUs: their own figures scatter no more than the marks do."""
    return statistics.median(yields.values())


def _has_two_kinds(server: Server, servers: Sequence[Server]) -> bool:
    """Whether the maker sells cores with one thread and cores with two."""
    return len({other.threaded for other in servers if other.maker == server.maker}) > 1


def _common_slope(servers: Sequence[Server]) -> float:
    """Growth with the cores within a CPU, each CPU counting alike."""
    groups: dict[tuple[str, bool], list[Server]] = defaultdict(list)
    for server in servers:
        groups[server.cpu, server.threaded].append(server)
    above = below = 0.0
    for group in groups.values():
        if len({entry.cores for entry in group}) < _FEWEST_SIZES:
            continue
        mean = statistics.fmean(entry.cores for entry in group)
        above += statistics.fmean((entry.cores - mean) * entry.inverse for entry in group)
        below += statistics.fmean((entry.cores - mean) ** 2 for entry in group)
    return above / below if below else 0.0
