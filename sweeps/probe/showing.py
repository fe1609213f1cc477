"""Formats a probe's document as tables of text; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from advisor.messages import format_mib, format_rate
from advisor.sweeps.probe.session import figures, is_skipped, nodes

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
    """The tables: facts of the CPU, disk and GPUs, then the figures of each part; without empty ones."""
    parts = {name: part for name, part in document["parts"].items() if not is_skipped(part)}
    facts = [
        Section(title, ("", ""), list(_facts(parts.get(name, {}))))
        for name, title in (("cpu", "CPU"), ("disk", "Disk"))
    ]
    gpus = [_gpu_section(device, parts["gpu"]) for device in parts.get("gpu", {}).get("devices", ())]
    measured = [_measured_section(name, part) for name, part in parts.items()]
    return [section for section in (*facts, *gpus, *measured) if section.rows]


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


def _facts(part: Node) -> Iterator[Sequence[str]]:
    """Yield (name, text) for each known scalar of a part."""
    for name, value in part.items():
        if value is not None and not isinstance(value, (dict, list)) and not name.startswith("uuid"):
            yield name.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value)


def _gpu_section(device: Node, part: Node) -> Section:
    states = part.get("under_load", {}).get("gpus", ())
    state: Node = next((entry for entry in states if entry.get("uuid") == device.get("uuid")), {})
    under_load = {f"{name} under load": value for name, value in state.items()}
    rows = [*_facts(device), *_facts(under_load), *_facts(part.get("driver", {}))]
    return Section(f"GPU {device.get('name')}", ("", ""), rows)


def _measured_section(name: str, part: Node) -> Section:
    """The table of a part's figures: a row for each group of them, with the group's largest spread."""
    rows: dict[str, dict[str, Node]] = {}
    for path, figure in figures(part):
        row, _, column = path.rpartition(".")
        rows.setdefault(row, {})[column] = figure
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    section = Section(
        f"Measured: {name}",
        ("", *(column.replace("_", " ") for column in columns), "spread"),
        right=range(1, len(columns) + 2),
    )
    for row, measured in rows.items():
        units = {figure["unit"] for figure in measured.values()}
        shared = f", {units.pop()}" if len(units) == 1 else ""
        cells = [
            " ".join([format_rate(entry["value"]), *([] if shared else [entry["unit"]])])
            if (entry := measured.get(column))
            else "-"
            for column in columns
        ]
        spread = max(figure["spread"] for figure in measured.values())
        what = (row or name).replace(".", " ").replace("_", " ")
        section.rows.append((f"{what}{shared}", *cells, f"{spread:.1%}"))
    return section
