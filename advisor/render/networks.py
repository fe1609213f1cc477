"""The networks of `advisor.networks/1` for a terminal: by family, or each in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.render.text import table

_SHOWN_NAMES = 3

Record = Mapping[str, Any]


def families_text(networks: Sequence[Record]) -> str:
    """A line a family, and how to see more."""
    families: dict[str, list[Record]] = {}
    for network in networks:
        families.setdefault(network["family"], []).append(network)
    rows = [
        [
            family,
            f"{len(members):,}",
            f"{sum(any(member['gpus_measured'].values()) for member in members):,}",
            ", ".join(member["name"] for member in members[:_SHOWN_NAMES])
            + (", .." if len(members) > _SHOWN_NAMES else ""),
        ]
        for family, members in families.items()
    ]
    lines = [
        *table(["family", "networks", "published", "names"], rows, right=(1, 2)),
        "",
        f"{len(networks):,} networks in {len(families):,} families; `advisor networks SEARCH` "
        "lists some of them, --all all; published: a rate on a GPU was measured by others",
    ]
    return "\n".join(lines)


def networks_text(networks: Sequence[Record]) -> str:
    """A line a network."""
    header = ["family", "name", "title", "tasks", "input", "unit", "parameters", "GMACs/unit"]
    rows = list(map(_cells, networks))
    return "\n".join(table([*header, "GPU rates"], rows, right=(6, 7)))


def _cells(row: Record) -> list[str]:
    told = {task: _known(row, task) for task in row["rates"]}
    alike = len(set(told.values())) == 1
    return [
        row["family"],
        row["name"],
        row["title"] if row["title"] != row["name"] else "",
        ", ".join(row["tasks"]),
        row["input"] or "x".join(map(str, row["input_shape"])),
        row["sample"],
        f"{row['parameters'] / 1e6:.2f} M",
        f"{row['gmacs_per_sample'] * row['samples_per_row']:.4g}",
        next(iter(told.values())) if alike else "; ".join(f"{task} {known}" for task, known in told.items()),
    ]


def _known(row: Record, task: str) -> str:
    """'published on 3 GPUs', 'modelled', '-'."""
    rate, gpus = row["rates"][task], row["gpus_measured"][task]
    if not gpus:
        return rate or "-"
    return f"{rate} on {gpus} GPU{'' if gpus == 1 else 's'}"
