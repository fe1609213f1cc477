"""SkyPilot's `vms.csv` -> the same checked rows: one offer a type, region and market.

A region has a line an availability zone there. Of differing on-demand prices of its zones the
highest counts, of spot prices the lowest. SkyPilot tells no cores: two vCPUs are taken as one core,
one where the CPU is Arm's. Google Cloud's list prices the machine and its GPUs in lines of their
own: they are added up by zone, and a machine is left out whose GPUs the zone has no line of. A line
that cannot be true is left out and counted, and so are lines without an instance type (GPUs that
attach to any machine), vCPUs or memory. Columns that versions 8 and 9 of the catalogues add to
these are not read.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog.believed import NO_GPUS
from advisor.catalog.import_rows import BadRowError, ImportRow, csv_lines, number, plain_name, plain_text
from advisor.catalog.match import is_gpu
from advisor.domain import LIST, OBSERVED, InstanceType, Market
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
# The cloud whose list prices machines and GPUs apart, under whatever name it is imported.
HOSTS_APART = "gcp"
_GPU_MEMORY = re.compile(r"'?\"?SizeInMiB'?\"?: ?([0-9.]+)")


def is_skypilot(text: str) -> bool:
    """Whether a CSV has SkyPilot's columns."""
    header = text.removeprefix("\ufeff").partition("\n")[0]
    return {"InstanceType", "AcceleratorName"} <= {cell.strip() for cell in header.split(",")}


class SkyPilotRows(Struct, frozen=True):
    """Rows of a `vms.csv`; how many lines are left out by reason, and one of each; and how many are
    read otherwise than they are written."""

    rows: list[ImportRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    read_as: Counter[str] = field(default_factory=Counter)

    def leave_out(self, line: int, what: str, why: str) -> None:
        """Count a line, and keep the first for people."""
        self.left_out[why] += 1
        self.examples.setdefault(why, f"line {line}, {what}")


def read_skypilot(text: str, name: str, as_of: date, known: Mapping[str, InstanceType]) -> SkyPilotRows:
    """A `vms.csv` that was fetched on `as_of`; `known` tells which types have GPUs."""
    found, broken = SkyPilotRows(), list[BadRowError]()
    lines = list(csv_lines(text, NEEDED, None, broken))
    cards = _cards(cells for _, cells in lines)
    facts: dict[str, Mapping[str, float | str]] = {}
    for line, cells in lines:
        named = cells["InstanceType"]
        if not (named and cells["vCPUs"] and cells["MemoryGiB"]):
            found.left_out["no instance type, vCPUs or memory"] += 1
            continue
        of_type = known.get(named)
        whole = _with_gpus(cells, of_type, cards) if of_type and of_type.gpu_count else cells
        if whole is None:
            found.leave_out(line, named, NO_GPUS)
            continue
        try:
            rows = _offers(line, whole, name, as_of, found.read_as)
        except BadRowError as error:
            broken.append(error)
            continue
        if facts.setdefault(named, rows[0].facts) == rows[0].facts:
            found.rows.extend(rows)
        else:
            found.leave_out(line, named, "other facts of the same type than a line before it")
    for bad_line in broken:
        why = f"{bad_line.column or 'the line'} is nothing that can be true"
        found.leave_out(bad_line.line, bad_line.reason, why)
    if not found.rows:
        raise UsageError(
            "the file has no offers: no line names an instance type with its facts",
            hint="; ".join(f"{count:,}: {why}" for why, count in found.left_out.items()) or None,
        )
    found.rows[:] = _one_a_region(found)
    return found


def _cards(lines: Iterable[Mapping[str, str]]) -> Mapping[str, list[Mapping[str, str]]]:
    """The GPUs that are priced apart from any machine, by zone."""
    found = defaultdict(list)
    for cells in lines:
        if cells["AcceleratorName"] and not cells["InstanceType"]:
            found[_zone(cells)].append(cells)
    return found


def _zone(cells: Mapping[str, str]) -> str:
    return cells.get("AvailabilityZone") or cells["Region"]


def _with_gpus(
    cells: Mapping[str, str], known: InstanceType, cards: Mapping[str, Sequence[Mapping[str, str]]]
) -> Mapping[str, str] | None:
    """A line of a machine with its GPUs, and what both cost; None where those are priced nowhere in
    its zone."""
    if cells["AcceleratorName"]:
        return cells
    all_names = {card["AcceleratorName"] for zone in cards.values() for card in zone}
    # 'A100-80GB' says more than 'A100', and 'H100-MEGA' is of 'a3-megagpu-8g'.
    fitting = [name for name in all_names if is_gpu(known.gpu_name, _without_family(name, known))]
    gpu = max(fitting, key=len, default="")
    count = known.gpu_count * known.gpu_fraction
    for card in cards.get(_zone(cells), ()):
        if card["AcceleratorName"] == gpu and _number(card["AcceleratorCount"]) == count:
            own = {key: card.get(key, "") for key in ("AcceleratorName", "AcceleratorCount", "GpuInfo")}
            sums = {key: _sum(cells[key], card[key]) for key in ("Price", "SpotPrice")}
            return {**cells, **own, **sums} if sums["Price"] or sums["SpotPrice"] else None
    return None


def _without_family(card: str, known: InstanceType) -> str:
    head, _, last = card.rpartition("-")
    return head if head and f"-{last.lower()}gpu" in known.name else card


def _sum(one: str, other: str) -> str:
    total = _number(one) + _number(other)
    return f"{total:.10g}" if total > 0 else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _offers(
    line: int, cells: Mapping[str, str], name: str, as_of: date, read_as: Counter[str]
) -> list[ImportRow]:
    prices = ((Market.ON_DEMAND, LIST, "Price"), (Market.SPOT, OBSERVED, "SpotPrice"))
    facts = _facts(line, cells, read_as)
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


def _facts(line: int, cells: Mapping[str, str], read_as: Counter[str]) -> dict[str, float | str]:
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
            facts["gpu_memory_gib"] = gib = _gpu_gib(line, memory.group(1))
            read_as["GPU memory below 1 GiB, in a field of MiB, as GiB"] += gib == float(memory[1])
    else:
        facts["gpu_count"] = 0
    return facts


def _gpu_gib(line: int, mib: str) -> float:
    """No GPU has less than 1 GiB: so little is a number of GiB in a field called MiB."""
    told = number(line, "SizeInMiB", mib, float)
    return told if told < 1024 else told / 1024


def _one_a_region(found: SkyPilotRows) -> list[ImportRow]:
    kept: dict[tuple[str, str, Market], ImportRow] = {}
    for row in found.rows:
        key = (row.instance_type, row.region, row.market)
        other = kept.get(key)
        if other is None or other.price is None:
            kept[key] = row
        elif row.price is None:
            continue
        elif row.market is Market.SPOT:
            kept[key] = replace(other, price=min(row.price, other.price))
        elif row.price != other.price:
            found.leave_out(
                row.line,
                f"{row.instance_type} in {row.region}",
                "zones of one region have different prices: the highest counts",
            )
            kept[key] = replace(other, price=max(row.price, other.price))
    return list(kept.values())
