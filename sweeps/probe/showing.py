"""Formats a probe's document as tables of text; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from advisor.sweeps.probe.session import figures, is_skipped, nodes
from advisor.units import format_mib, format_rate

Node = Mapping[str, Any]


class Section(Struct, frozen=True):
    """A table of text cells; columns in `right` are right-aligned numbers."""

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    right: Sequence[int] = ()


def headline(document: Node) -> str:
    """One line that describes the machine."""
    machine, gpu = document["machine"], document["parts"].get("gpu", {})
    names = [str(device["name"]) for device in gpu.get("devices", ())]
    gpus = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    gpu_text = gpus or ("no GPU" if gpu else "GPU not asked for")
    return (
        f"{machine['cpu_model']}, {machine['physical_cores']} cores, {machine['cpus']} hardware "
        f"threads, {format_mib(machine['memory_mib'])} RAM; {gpu_text}"
    )


def sections(document: Node) -> list[Section]:
    """The tables: facts of the CPU, disk and GPUs, then figures, then layers; without empty ones."""
    parts = {name: part for name, part in document["parts"].items() if not is_skipped(part)}
    result = [
        Section("CPU", ("", ""), list(_cpu(parts.get("cpu", {})))),
        Section("Disk", ("", ""), list(_disk(parts.get("disk", {})))),
        *(_gpu(device, parts["gpu"]) for device in parts.get("gpu", {}).get("devices", ())),
        _figures(parts),
        _disk_reads(parts.get("disk", {})),
        *_layers(parts.get("operations", {})),
    ]
    return [section for section in result if section.rows]


def not_measured(document: Node) -> list[str]:
    """One line for each reason why figures are missing: 'gpu: NVIDIA's driver ..'."""
    reasons: dict[str, list[str]] = {}
    for name, node in nodes(document["parts"]):
        if is_skipped(node):
            reasons.setdefault(node["skipped"], []).append(name)
    return [
        f"{', '.join(names[:2])}{f' and {len(names) - 2} more' if names[2:] else ''}: {reason}"
        for reason, names in reasons.items()
    ]


def _cpu(part: Node) -> Iterator[Sequence[str]]:
    if not part:
        return
    quota = f", a quota of {part['cpu_quota']:g} CPUs" if part["cpu_quota"] else ""
    yield (
        "usable",
        f"{part['usable_cpus']} CPUs on {part['usable_cores']} cores{quota}, "
        f"{format_mib(part['usable_memory_mib'])} of memory free",
    )
    yield "sockets", str(part["sockets"])
    yield "threads a core", f"{part['threads_per_core']:g}"
    if isinstance(part["caches"], list):
        yield (
            "caches",
            ", ".join(
                f"{entry['count']} x {_cache_size(entry['size_kib'])} L{entry['level']}"
                + {"data": "d", "instruction": "i"}.get(entry["kind"], "")
                for entry in part["caches"]
            ),
        )
    if isinstance(part["numa_nodes"], list):
        yield "NUMA nodes", str(len(part["numa_nodes"]))
    yield "extensions", ", ".join(part["flags"]) or "-"


def _cache_size(kib: int) -> str:
    return format_mib(kib / 1024) if kib >= 1024 else f"{kib} KiB"


def _disk(part: Node) -> Iterator[Sequence[str]]:
    if not part:
        return
    yield "folder", f"{part['path']} ({part.get('file_system', 'unknown file system')})"
    device = " ".join(str(part[name]) for name in ("device", "device_model") if name in part)
    yield "device", device or str(part.get("source", "-"))
    how = "past the page cache" if part["past_page_cache"] else "not past the page cache"
    yield "read", f"a file of {format_mib(part['file_mib'])}, {how}"


def _gpu(device: Node, part: Node) -> Section:
    states = part.get("under_load", {}).get("gpus", ())
    state: Node = next((entry for entry in states if entry.get("uuid") == device.get("uuid")), {})
    rows = [
        (name.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value))
        for name, value in {**device, **{f"{k} under load": v for k, v in state.items()}}.items()
        if value is not None and name != "uuid" and not name.startswith("uuid ")
    ]
    rows += [
        (name.replace("_", " "), str(value))
        for name, value in part.get("driver", {}).items()
        if value is not None
    ]
    return Section(f"GPU {device.get('name')}", ("", ""), list(rows))


def _figures(parts: Node) -> Section:
    """The table of figures, without those of the disk and the layers, which have separate tables."""
    section = Section("Measured", ("what", "value", "unit", "spread", "repeats"), [], (1, 3, 4))
    others = {name: part for name, part in parts.items() if name not in ("disk", "operations")}
    launch = {"launch": parts.get("operations", {}).get("launch", {})}
    for name, figure in figures(others | {"operations": launch}):
        what, value = name.replace(".", " ").replace("_", " "), format_rate(figure["value"])
        spread, repeats = f"{figure['spread']:.1%}", str(figure["repeats"])
        section.rows.append((what, value, figure["unit"], spread, repeats))
    return section


def _disk_reads(part: Node) -> Section:
    columns = ("rate", "iops", "latency_median", "latency_p99")
    header = ("reads", "at a time", "MiB/s", "IOPS", "median us", "p99 us", "spread", "")
    section = Section("Disk reads", header, [], (1, 2, 3, 4, 5, 6))
    for name, result in part.items():
        kind, depth_of, depth = name.partition("_depth_")
        if depth_of and not is_skipped(result):
            cells = [format_rate(result[column]["value"]) if column in result else "-" for column in columns]
            limit = "or more: own CPU" if result["limited_by_own_cpu"] else ""
            spread = f"{result['rate']['spread']:.1%}"
            section.rows.append((kind.replace("_", " "), depth, *cells, spread, limit))
    return section


def _layers(part: Node) -> Iterator[Section]:
    if not part:
        return
    header = ("layer", "size", "forward ms", "TFLOP/s", "GB/s", "backward ms", "TFLOP/s", "GB/s")
    for precision in ("fp32", "amp"):
        title = f"Layers on {part['device']}, {precision}, batch {part['batch']}"
        section = Section(title, (*header, "spread"), [], (2, 3, 4, 5, 6, 7, 8))
        for name, sizes in part.get(precision, {}).items():
            section.rows.extend(
                (name, size, *_both_ways(result)) for size, result in sizes.items() if not is_skipped(result)
            )
        yield section


def _both_ways(results: Node) -> list[str]:
    cells = [
        format_rate(results[way][what]["value"]) if what in results[way] else "-"
        for way in ("forward", "backward")
        for what in ("time", "arithmetic", "traffic")
    ]
    spread = max(results[way]["time"]["spread"] for way in ("forward", "backward"))
    return [*cells, f"{spread:.0%}"]
