"""SkyPilot's `vms.csv` -> one checked offer per type, region and market.

A region has a line per availability zone. Of differing on-demand prices of its zones the highest counts, of
spot prices the lowest. SkyPilot has no cores: two vCPUs are taken as one core, one where the CPU is Arm's.
Impossible lines are left out and counted, and so are lines without an instance type, vCPUs or memory. Google
Cloud's list has separate lines for machines and their GPUs: those of machines with GPUs are left out, too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date

from msgspec.structs import replace

from advisor.catalog.believed import NO_GPUS, contradiction
from advisor.catalog.catalog import Catalog
from advisor.catalog.overlay import Overlay
from advisor.catalog.providers.rows import (
    NOTHING_IMPORTED,
    UNKNOWN_TYPE,
    Contents,
    Line,
    PriceFile,
    PriceRow,
    csv_lines,
)
from advisor.catalog.providers.tables import NO_CARD, why_no_card
from advisor.domain import LIST, OBSERVED, InstanceType, Market, Price
from advisor.errors import UsageError

NEEDED = (
    *("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "Price", "SpotPrice"),
    "Region",
)
# The cloud whose list has separate lines for machines and GPUs, under whatever name it is imported.
HOSTS_APART = "gcp"
_GPU_MEMORY = re.compile(r"'?\"?SizeInMiB'?\"?: ?([0-9.]+)")


def reads(file: PriceFile) -> bool:
    """True if a file is a CSV with SkyPilot's columns."""
    return {"InstanceType", "AcceleratorName"} <= file.columns


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """Prices of a known cloud's types, or offers of a new cloud, without impossible lines."""
    as_of = file.required_date("a SkyPilot catalogue")
    is_known, contents = file.name in file.bundled, Contents()
    known = {
        instance.name: instance for instance in catalog.instances(file.name if is_known else HOSTS_APART)
    }
    rows = _one_per_region(_all_offers(file, as_of, known, contents), contents)
    if is_known:
        return replace(contents, overlays={file.name: _overlay_of(rows, known, catalog.gpus, contents)})
    whole = []
    for row in rows:
        if why := why_no_card(row.facts, catalog.gpus):
            contents.leave_out(NO_CARD, f"line {row.line}, {row.instance_type}: {why}")
        else:
            whole.append(row)
    return replace(contents, rows=whole)


def _all_offers(
    file: PriceFile, as_of: date, known: Mapping[str, InstanceType], contents: Contents
) -> list[PriceRow]:
    """The offers of every line; `known` says which types have GPUs."""
    rows, broken = list[PriceRow](), list[UsageError]()
    lines = list(csv_lines(file.text, NEEDED, None, broken))
    facts: dict[str, Mapping[str, float | str]] = {}
    for line in lines:
        cells = line.cells
        name = cells["InstanceType"]
        if not (name and cells["vCPUs"] and cells["MemoryGiB"]):
            contents.leave_out("no instance type, vCPUs or memory")
            continue
        of_type = known.get(name)
        if of_type and of_type.gpu_count and not cells["AcceleratorName"]:
            contents.leave_out(NO_GPUS, f"line {line.number}, {name}")
            continue
        try:
            offers = _line_offers(line, file.name, as_of, contents.read_as)
        except UsageError as error:
            broken.append(error)
            continue
        if facts.setdefault(name, offers[0].facts) == offers[0].facts:
            rows.extend(offers)
        else:
            contents.leave_out(
                "other facts of the same type than a line before it", f"line {line.number}, {name}"
            )
    for bad_line in broken:
        contents.leave_out(
            "the line is nothing that can be true", str(bad_line).removesuffix(NOTHING_IMPORTED)
        )
    if not rows:
        hint = "; ".join(f"{count:,}: {why}" for why, count in contents.left_out.items()) or None
        raise UsageError("the file has no offers: no line names an instance type with its facts", hint=hint)
    return rows


def _overlay_of(
    rows: Iterable[PriceRow], known: Mapping[str, InstanceType], sheets: Iterable[str], contents: Contents
) -> Overlay:
    """Prices without those of types that the cloud lacks, or that contradict the known type."""
    overlay = Overlay()
    for row in rows:
        why, what = "" if row.price is not None else "no price is given", ""
        if row.instance_type not in known:
            why = why or UNKNOWN_TYPE
        elif not why:
            why = contradiction(row.facts, known[row.instance_type], sheets)
            what = f"line {row.line}, {row.instance_type}"
        if why or row.price is None:
            contents.leave_out(why, what)
            continue
        overlay.prices[row.instance_type, row.region, row.market] = Price(
            usd_per_hour=row.price, kind=row.kind, as_of=row.as_of, source=row.source
        )
    return overlay


def _line_offers(line: Line, name: str, as_of: date, read_as: Counter[str]) -> list[PriceRow]:
    prices = ((Market.ON_DEMAND, LIST, "Price"), (Market.SPOT, OBSERVED, "SpotPrice"))
    facts = _facts(line, read_as)
    # Most clouds have no spot market: only a line without any price lacks one.
    given = [price for price in prices if line.text(price[2])] or prices[:1]
    return [
        PriceRow(
            line=line.number,
            cloud=name,
            instance_type=line.name("InstanceType"),
            region=line.name("Region"),
            market=market,
            price=line.amount(column) if line.text(column) else None,
            kind=kind,
            as_of=as_of,
            source="SkyPilot catalogue",
            facts=facts,
        )
        for market, kind, column in given
    ]


def _facts(line: Line, read_as: Counter[str]) -> dict[str, float | str]:
    vcpus, arm = int(line.amount("vCPUs")), line.text("Arch") == "arm64"
    facts: dict[str, float | str] = {
        "vcpus": max(1, vcpus),
        "physical_cores": max(1, vcpus // (1 if arm else 2)),
        "memory_gib": line.amount("MemoryGiB"),
        "cpu_architecture": "arm64" if arm else "x86_64",
    }
    if not line.text("AcceleratorName"):
        return facts | {"gpu_count": 0}
    facts["gpu_name"] = line.words("AcceleratorName")
    count = line.amount("AcceleratorCount")
    # A share of a GPU gets no count: its speed is not published.
    if count == int(count):
        facts["gpu_count"] = int(count)
    if memory := _GPU_MEMORY.search(line.text("GpuInfo")):
        mib = Line(line.number, {"SizeInMiB": memory[1]}).amount("SizeInMiB")
        # No GPU has less than 1 GiB: a smaller number is GiB in a field called MiB.
        facts["gpu_memory_gib"] = mib if mib < 1024 else mib / 1024
        read_as["GPU memory below 1 GiB, in a field of MiB, as GiB"] += mib < 1024
    return facts


def _one_per_region(rows: Iterable[PriceRow], contents: Contents) -> list[PriceRow]:
    kept: dict[tuple[str, str, Market], PriceRow] = {}
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
            contents.leave_out(
                "zones of one region have different prices: the highest counts",
                f"line {row.line}, {row.instance_type} in {row.region}",
            )
            kept[key] = replace(other, price=max(row.price, other.price))
    return list(kept.values())
