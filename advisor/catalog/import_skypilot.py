"""SkyPilot's `vms.csv` -> the same checked rows: one offer a type, region and market.

A region has a line an availability zone there. On-demand prices of its zones must agree; of the
spot prices the lowest counts. SkyPilot tells no cores: two vCPUs are taken as one core, one
where the CPU is Arm's. Lines without an instance type (GPUs that attach to any machine) or
without vCPUs or memory are no offers and are left out. Columns that versions 8 and 9 of the
catalogues add to these are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date

from msgspec.structs import replace

from advisor.catalog.import_rows import (
    ImportRow,
    bad,
    csv_lines,
    number,
    plain_name,
    plain_text,
)
from advisor.domain import LIST, OBSERVED, Market
from advisor.errors import UsageError

NEEDED = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "Price",
    "SpotPrice",
    "Region",
)
_GPU_MEMORY = re.compile(r"'?\"?SizeInMiB'?\"?: ?([0-9.]+)")


def is_skypilot(text: str) -> bool:
    """Whether a CSV has SkyPilot's columns."""
    header = text.removeprefix("\ufeff").partition("\n")[0]
    return {"InstanceType", "AcceleratorName"} <= {cell.strip() for cell in header.split(",")}


def read_skypilot(text: str, name: str, as_of: date) -> tuple[list[ImportRow], Counter[str]]:
    """Rows of a `vms.csv` that was fetched on `as_of`, and how many lines are left out."""
    found: list[ImportRow] = []
    left_out = Counter[str]()
    for line, cells in csv_lines(text, NEEDED, None):
        if cells["InstanceType"] and cells["vCPUs"] and cells["MemoryGiB"]:
            found += _offers(line, cells, name, as_of)
        else:
            left_out["no instance type, vCPUs or memory"] += 1
    if not found:
        raise UsageError("the file has no offers: no line names an instance type with its facts")
    return _one_a_region(found), left_out


def _offers(line: int, cells: Mapping[str, str], name: str, as_of: date) -> list[ImportRow]:
    prices = ((Market.ON_DEMAND, LIST, "Price"), (Market.SPOT, OBSERVED, "SpotPrice"))
    facts = _facts(line, cells)
    # Most clouds have no spot market: only a line without any price lacks one.
    given = [one for one in prices if cells[one[2]]] or prices[:1]
    return [
        ImportRow(
            line=line,
            cloud=name,
            instance_type=plain_name(line, "InstanceType", cells["InstanceType"]),
            region=plain_name(line, "Region", cells["Region"]),
            market=market,
            price=number(line, column, cells[column], float) if cells[column] else None,
            currency="USD",
            kind=kind,
            as_of=as_of,
            source="SkyPilot catalogue",
            terms="",
            facts=facts,
        )
        for market, kind, column in given
    ]


def _facts(line: int, cells: Mapping[str, str]) -> dict[str, float | str]:
    vcpus = number(line, "vCPUs", cells["vCPUs"], float)
    arm = cells.get("Arch", "") == "arm64"
    facts: dict[str, float | str] = {
        "vcpus": max(1, int(vcpus)),
        "physical_cores": max(1, int(vcpus) // (1 if arm else 2)),
        "memory_gib": number(line, "MemoryGiB", cells["MemoryGiB"], float),
        "cpu_architecture": "arm64" if arm else "x86_64",
    }
    if cells["AcceleratorName"]:
        facts["gpu_name"] = plain_text(line, "AcceleratorName", cells["AcceleratorName"])
        count = number(line, "AcceleratorCount", cells["AcceleratorCount"], float)
        # A share of a GPU has no count: how fast it is, nobody tells.
        if count == int(count):
            facts["gpu_count"] = int(count)
        memory = _GPU_MEMORY.search(cells.get("GpuInfo", ""))
        if memory:
            facts["gpu_memory_gib"] = number(line, "GpuInfo", memory.group(1), float) / 1024
    else:
        facts["gpu_count"] = 0
    return facts


def _one_a_region(rows: Iterable[ImportRow]) -> list[ImportRow]:
    kept: dict[tuple[str, str, Market], ImportRow] = {}
    for row in rows:
        key = (row.instance_type, row.region, row.market)
        other = kept.get(key)
        if other is None or other.price is None:
            kept[key] = row
        elif row.price is None:
            continue
        elif row.market is Market.SPOT:
            kept[key] = replace(other, price=min(row.price, other.price))
        elif row.price != other.price:
            reason = f"has another price of {row.instance_type} in {row.region} than line"
            raise bad(row.line, f"{reason} {other.line}: {row.price:g}, not {other.price:g}")
    return list(kept.values())
