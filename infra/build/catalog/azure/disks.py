"""Azure's managed disks: rules, sizes, list prices in five regions, and estimates for all others.

Azure counts MB/s of 10**6 bytes, and 730 hours in a month."""

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
# Estimates are 0.91 to 1.12 times the listed prices in four regions for five types. The bounds are wider,
# since all of these regions are in Europe.
ESTIMATE_LOW, ESTIMATE_HIGH = 0.8, 1.3
# In logarithms, prices of old types follow half of a region's price level, prices of new types all of it.
_FOLLOWS = {"premium-ssd-v2": 1.0, "ultra": 1.0}
_FOLLOWS_OTHERWISE = 0.5
_UNITS = ("gib-hour", "iops-hour", "mbps-hour")
_SIZE_HEADER = ("type", "gib", "iops", "mib_s", "burst_iops", "burst_mib_s")
# Dollars per month for a GiB, an IOPS, a MiB/s, and each available size.
_Parts = tuple[float, float, float, tuple[tuple[float, float], ...]]


def build_disks(sizes: Iterable[str], prices: Iterable[PriceRow]) -> list[OutputTable]:
    """Rules, sizes and prices of the disks, and which disks some instance sizes cannot use."""
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
    """Listed prices by region and disk type."""
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
    """Region -> median over instance sizes of the price there divided by the price in `BASE`."""
    found = defaultdict(list)
    for row in prices:
        if row.market == "on-demand" and BASE in row.cells:
            for region, cell in row.cells.items():
                found[region].append(float(cell.price) / float(row.cells[BASE].price))
    return {region: statistics.median(ratios) for region, ratios in sorted(found.items())}


def estimated_prices(
    listed: Mapping[tuple[str, str], _Parts], ratios: Mapping[str, float]
) -> dict[tuple[str, str], _Parts]:
    """Estimated prices of every disk type in every priced region, from the prices in `BASE` alone."""
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
    """Rates in MiB/s; a rate that is ordered in whole MiB/s is rounded down."""
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
