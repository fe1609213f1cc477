"""SpareCores' measurements of AWS servers (CC BY-SA 4.0), kept in separate files.

A size that was not measured takes the values of a type with the same processor and number of vCPUs, if AWS
names the processor, else its family's; a `basis` column says which.

The gain from a core's second hardware thread follows from benchmark scores of whole servers. PassMark's CPU
mark runs eight different tests on all hardware threads (compression, encryption, SSE, floating point, sorting
..), its single-thread mark a mix of them on one. With the scaling law `u(n) = n / (1 + a (n - 1))` for n = c
(1 + y) useful cores,

    c x single-thread mark / CPU mark = (1 - a) / (k (1 + y)) + (a / k) c,

where k is the ratio of one thread's CPU mark to its single-thread mark. The part that does not grow with c is
1 + y times as large where a core has one thread, so servers of a maker of both kinds show y.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from advisor.catalog.instances import plain_cpu_name
from advisor.infra.build.catalog.aws.lists import family
from advisor.infra.build.catalog.tables import OutputTable, number, read_source, table
from advisor.infra.build.catalog.wide import Source

Row = Mapping[str, str]
# Above this many cores, scores differ by memory and caches rather than cores.
_LARGEST_CORES = 16
# With fewer sizes, a CPU shows too little of how its score grows with cores.
_FEWEST_SIZES = 3
# Xen guests of 2006 to 2008, whose vCPUs are fractions of a core.
_SHARED_CORES = ("t1.", "m1.", "m2.", "c1.")


class Server(Struct, frozen=True):
    """A measured server: number of whole `cores`, and cores x single-thread mark / CPU mark."""

    cpu: str
    maker: str
    cores: int
    threaded: bool
    inverse: float


def measured_servers(scores: Sequence[Row], types: Mapping[str, Row]) -> list[Server]:
    """Servers with both marks and a core count; `cpu_model` is the plain CPU name."""
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
    """Second-thread yield of each CPU whose maker also has CPUs with one thread per core."""
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
    """The median over CPUs; CPUs differ from it by no more than the marks scatter."""
    return statistics.median(yields.values())


def _has_two_kinds(server: Server, servers: Sequence[Server]) -> bool:
    """True if the maker has servers with one thread per core and servers with two."""
    return len({other.threaded for other in servers if other.maker == server.maker}) > 1


def _common_slope(servers: Sequence[Server]) -> float:
    """Slope of `inverse` over the number of cores within a CPU, with equal weight for each CPU."""
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


SERVERS_FILE = "sparecores/aws_servers.csv"
CPU_FILE = "sparecores/cpu_models.csv"
SOURCE = Source(
    "sparecores-804d3c71",
    "2026-06-11",
    "CC BY-SA 4.0",
    "SpareCores/sc-inspector-data@804d3c71 (measured)",
    "CPU and GPU measurements",
)

SERVER_HEADER = (
    "instance_type",
    "cpu_model",
    "single_thread_score",
    "cpu_mark",
    "cpu_basis",
    "gpu_memory_mib",
    "host_to_gpu_gb_per_second",
    "gpu_basis",
)
CPU_HEADER = (
    "cpu_model",
    "second_thread_yield",
    "basis",
    "servers",
    "mixed_marks_yield",
    "integer_division_yield",
)


def build_sparecores(types: Sequence[Row]) -> list[OutputTable]:
    """Per type: CPU model and scores, usable GPU memory, copy rate; per CPU model: yield."""
    scores = [_renamed(row) for row in read_source("sparecores/aws_cpu_scores.csv")]
    gpu_servers = [_renamed(row) for row in read_source("sparecores/aws_gpu_servers.csv")]
    alike = {
        row["instance_type"]: row["measured_type"] for row in read_source("sparecores/aws_same_processor.csv")
    }
    rows = []
    for type_ in types:
        cpu = _cpu_cells(type_["instance_type"], scores, alike)
        gpu = _gpu_cells(type_, gpu_servers)
        if any(cpu) or any(gpu):
            rows.append((type_["instance_type"], *cpu, *gpu))
    models = _cpu_models(scores, gpu_servers, {type_["instance_type"]: type_ for type_ in types})
    return [table(SERVERS_FILE, SERVER_HEADER, rows), table(CPU_FILE, CPU_HEADER, models)]


def _renamed(row: Row) -> dict[str, str]:
    return dict(row) | {"cpu_model": plain_cpu_name(row["cpu_model"])}


def _cpu_cells(name: str, scores: Sequence[Row], alike: Mapping[str, str]) -> tuple[str, str, str, str]:
    for measured, basis in ((name, "measured"), (alike.get(name), "same processor and size")):
        for row in scores:
            if row["server"] == measured:
                marks = row["passmark_singlethread"], row["passmark_cpu_mark"]
                return row["cpu_model"], number(marks[0]), number(marks[1]), basis
    kin = [row for row in scores if family(row["server"]) == family(name)]
    if not kin:
        return "", "", "", ""
    model = _most_common(row["cpu_model"] for row in kin)
    single = [float(r["passmark_singlethread"]) for r in kin if r["cpu_model"] == model]
    # The multi-thread mark depends on the size, so a family has none.
    return model, f"{statistics.median(single):.1f}", "", "family"


def _gpu_cells(entry: Row, gpu_servers: Sequence[Row]) -> tuple[str, str, str]:
    """Usable memory and copy rate; if only one was measured, the family's value is used for the other."""
    name = entry["instance_type"]
    if not entry["gpu_name"]:
        return "", "", ""
    own = next((row for row in gpu_servers if row["server"] == name), None)
    # The memory of a fraction is specific to it; sizes with whole GPUs use the same GPU model.
    whole = float(entry["gpu_partition_size"] or 1) == 1
    kin = [r for r in gpu_servers if family(r["server"]) == family(name)] if whole else []
    family_rate = _median(row["h2d_gb_s"] for row in kin)
    if own is None:
        memory = _median(row["vram_mib_each"] for row in kin)
        return memory, family_rate, "family" if memory else ""
    if own["h2d_gb_s"] or not family_rate:
        return own["vram_mib_each"], number(own["h2d_gb_s"]), "measured"
    return own["vram_mib_each"], family_rate, "rate of family"


def _cpu_models(
    scores: Sequence[Row], gpu_servers: Sequence[Row], types: Mapping[str, Row]
) -> list[tuple[str, ...]]:
    """Per CPU model: the yield of second threads, and the two figures that support it."""
    servers = measured_servers(scores, types)
    mixed, division = second_thread_yields(servers), _division_yields(scores, gpu_servers, types)
    usual = number(f"{usual_yield(mixed):.2f}")
    counts = Counter(server.cpu for server in servers if server.threaded)
    rows: list[tuple[str, ...]] = []
    for model in sorted({row["cpu_model"] for row in (*scores, *gpu_servers)}):
        own = (_share(mixed.get(model)), _share(division.get(model)))
        if any(own):
            rows.append((model, usual, "median of all", str(counts[model]), *own))
        else:
            rows.append((model, "0", "one thread a core", "0", *own))
    return rows


def _division_yields(
    scores: Sequence[Row], gpu_servers: Sequence[Row], types: Mapping[str, Row]
) -> dict[str, float]:
    """Relative gain of integer division from second threads, per CPU model.

    From the thread curve where one was measured, else from one thread and all threads, which underestimates
    the gain as turbo clocks fall. For comparison only: one thread can keep a newer divider busy."""
    curves, ratios = defaultdict(list), defaultdict(list)
    for row in gpu_servers:
        gain = _curve_gain(row["stressng_curve"], int(float(row["cpu_cores"])), int(row["vcpus"]))
        if gain is not None:
            curves[row["cpu_model"]].append(gain)
    for row in scores:
        cores = int(types[row["server"]]["cores"]) if row["server"] in types else 0
        if 0 < cores < int(row["vcpus"]):
            one_thread = float(row["stressng_cpu_1thread"])
            ratios[row["cpu_model"]].append(float(row["stressng_cpu_max"]) / one_thread / cores - 1)
    return {model: statistics.median(gains) for model, gains in (ratios | curves).items()}


def _curve_gain(curve: str, cores: int, vcpus: int) -> float | None:
    """Throughput of all threads over that of one thread per core, minus 1; None if either is missing."""
    points = dict(point.split(":") for point in curve.split("|") if point)
    if cores >= vcpus or str(cores) not in points or str(vcpus) not in points:
        return None
    return float(points[str(vcpus)]) / float(points[str(cores)]) - 1


def _share(value: float | None) -> str:
    return "" if value is None else number(f"{value:.3f}")


def _median(values: Iterable[str]) -> str:
    existing = [float(value) for value in values if value]
    return number(str(statistics.median(existing))) if existing else ""


def _most_common(names: Iterable[str]) -> str:
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name))
