"""Azure's managed disks: rules, sizes that are sold, prices of five regions, estimates of others.

Azure counts MB/s of 10**6 bytes, and an hour is a 730th of a month."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

from advisor.infra.build.catalog.azure.prices import DISK_PRICES, ESTIMATED_DISKS
from advisor.infra.build.catalog.azure.sizes import limited_to_standard
from advisor.infra.build.catalog.tables import (
    RULE_COLUMNS,
    OutputTable,
    disk_tables,
    number,
    read_source,
    table,
)
from advisor.infra.build.catalog.wide import PriceRow

HOURS_PER_MONTH = 730
_MB_IN_MIB = 1e6 / 2**20
# The region whose disk prices the others are estimated from.
BASE = "westeurope"
# Estimated and listed prices of four regions and five types differ by 0.91 to 1.12; wider, since
# no region outside Europe is among them.
ESTIMATE_LOW, ESTIMATE_HIGH = 0.8, 1.3
# Old types follow how dear a region is by half, new ones wholly (in logarithms).
_FOLLOWS = {"premium-ssd-v2": 1.0, "ultra": 1.0}
_FOLLOWS_OTHERWISE = 0.5
_UNITS = ("gib-hour", "iops-hour", "mbps-hour")
_SIZE_HEADER = ("type", "gib", "iops", "mib_s", "burst_iops", "burst_mib_s")
# Dollars a month of a GiB, an IOPS, a MiB/s, and of each size that is sold.
_Parts = tuple[float, float, float, tuple[tuple[float, float], ...]]


def build_disks(sizes: Iterable[str], prices: Iterable[PriceRow]) -> list[OutputTable]:
    """Rules, sizes and prices of the disks, and which of them not every size takes."""
    listed = listed_prices()
    rows = [_row(key, parts, "list", 1, 1, DISK_PRICES.id) for key, parts in listed.items()]
    rows += [
        _row(key, parts, "estimated", ESTIMATE_LOW, ESTIMATE_HIGH, ESTIMATED_DISKS.id)
        for key, parts in estimated_prices(listed, region_ratios(prices)).items()
        if key not in listed
    ]
    return [
        *disk_tables("azure", _rules(), rows),
        table("catalog/azure_disk_sizes.csv", _SIZE_HEADER, _sizes()),
        table(
            "catalog/azure_disk_limits.csv",
            ("instance_type", "disk_type", "read_iops", "read_mib_s"),
            limited_to_standard(sizes),
        ),
    ]


def listed_prices() -> dict[tuple[str, str], _Parts]:
    """What a type costs in a region, as listed."""
    gib = {row["size"]: float(row["gib"]) for row in read_source("catalog/azure_disk_sizes.csv")}
    parts: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    sizes: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for row in read_source("catalog/azure_disk_prices.csv"):
        key, usd = (row["region"], row["disk_type"]), float(row["usd"])
        if row["size"]:
            sizes[key][gib[row["size"]]] = usd
        elif row["unit"] in _UNITS:
            parts[key][row["unit"]] = usd * HOURS_PER_MONTH
    found = {}
    for key in sorted({*parts, *sizes}):
        per_gib, per_iops, per_mb_s = (parts[key].get(unit, 0.0) for unit in _UNITS)
        found[key] = per_gib, per_iops, per_mb_s / _MB_IN_MIB, tuple(sorted(sizes[key].items()))
    return found


def region_ratios(prices: Iterable[PriceRow]) -> dict[str, float]:
    """Region -> median price of a size there over that in `BASE`."""
    found = defaultdict(list)
    for row in prices:
        if row.market == "on-demand" and BASE in row.cells:
            for region, cell in row.cells.items():
                found[region].append(float(cell.price) / float(row.cells[BASE].price))
    return {region: statistics.median(ratios) for region, ratios in sorted(found.items())}


def estimated_prices(
    listed: Mapping[tuple[str, str], _Parts], ratios: Mapping[str, float]
) -> dict[tuple[str, str], _Parts]:
    """What every type costs in every region with prices, estimated from `BASE` alone."""
    return {
        (region, kind): _scaled(parts, ratio ** _FOLLOWS.get(kind, _FOLLOWS_OTHERWISE))
        for region, ratio in ratios.items()
        for (base, kind), parts in listed.items()
        if base == BASE
    }


def _scaled(parts: _Parts, factor: float) -> _Parts:
    gib, iops, mib_s, sizes = parts
    sold = tuple((size, usd * factor) for size, usd in sizes)
    return gib * factor, iops * factor, mib_s * factor, sold


def _row(
    key: tuple[str, str], parts: _Parts, kind: str, low: float, high: float, source: str
) -> tuple[str, ...]:
    gib, iops, mib_s, sizes = parts
    sold = "|".join(f"{size:g}:{usd:.6g}" for size, usd in sizes)
    cells = (f"{gib:.6g}", f"0:{iops:.6g}", f"{mib_s:.6g}", source, kind, f"{low:g}", f"{high:g}")
    return (*key, *cells, sold)


def _rules() -> list[dict[str, str]]:
    rules = []
    for row in read_source("catalog/azure_disk_types.csv"):
        own = {name: row[name] for name in RULE_COLUMNS if name in row}
        rules.append(dict.fromkeys(RULE_COLUMNS, "") | own | _in_mib(row))
    return rules


def _in_mib(row: Mapping[str, str]) -> dict[str, str]:
    """Rates in MiB/s; what is ordered by the whole MiB/s is rounded down, never up."""
    found = {
        f"mib_s_{name}": number(str(float(row[f"mb_s_{name}"] or 0) * _MB_IN_MIB))
        for name in ("base", "per_gib", "cap")
    }
    for name in ("min", "max"):
        told = row[f"provision_mb_s_{name}"]
        found[f"provision_mib_s_{name}"] = str(math.floor(float(told) * _MB_IN_MIB)) if told else ""
    per_iops = row["provision_mb_s_per_iops"]
    found["provision_mib_s_per_iops"] = number(str(float(per_iops) * _MB_IN_MIB)) if per_iops else ""
    return found


def _sizes() -> list[tuple[str, ...]]:
    return [
        (
            *(row["disk_type"], row["gib"], row["iops"], _mib_s(row["mb_per_s"])),
            *(row["burst_iops"], _mib_s(row["burst_mb_per_s"])),
        )
        for row in read_source("catalog/azure_disk_sizes.csv")
    ]


def _mib_s(mb_s: str) -> str:
    return number(str(float(mb_s) * _MB_IN_MIB)) if mb_s else ""
