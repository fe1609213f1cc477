"""Volume types as numbers, their monthly prices by region, and what instances pass on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from advisor.catalog.prices import LISTED_COLUMNS
from infra.catalog_build import provenance
from infra.catalog_build.tables import OutputTable, number, read_source, table

RULES_FILE = "catalog/{}_disk_types.csv"
PRICES_FILE = "catalog/{}_disk_prices.csv"
LIMITS_FILE = "catalog/gcp_disk_limits.csv"

_MB_IN_MIB = 1e6 / 2**20
LIMIT_HEADER = ("instance_type", "disk_type", "read_iops", "read_mib_s")


def build_disks() -> list[OutputTable]:
    """The rules of each cloud's volume types, and what they cost where that is known."""
    aws = read_source("catalog/ebs_volume_rules.csv")
    types = frozenset(rule["type"] for rule in aws)
    tiers = _iops_tiers()
    prices = [
        _price_row(row, tiers)
        for row in read_source("catalog/aws_ebs_prices.csv")
        if row["volume_type"] in types and _is_priced(row, tiers)
    ]
    return [
        *_tables("aws", aws, prices),
        *_tables("gcp", read_source("catalog/gcp_disk_rules.csv"), _gcp_prices()),
        *_tables("alibaba", _alibaba_rules(tuple(aws[0])), []),
        _limits(),
    ]


def _tables(
    cloud: str, rules: list[dict[str, str]], prices: Iterable[tuple[str, ...]]
) -> list[OutputTable]:
    header = tuple(rules[0])
    rows = [tuple(rule[column] for column in header) for rule in rules]
    return [
        table(RULES_FILE.format(cloud), header, rows),
        table(PRICES_FILE.format(cloud), LISTED_COLUMNS, prices),
    ]


def _gcp_prices() -> list[tuple[str, ...]]:
    """A persistent disk costs its size alone."""
    source = provenance.GCP_DISK_PRICES.id
    return [
        (row["region"], row["disk_type"], number(row["usd_per_gb_month"]), "0:0", "0", source)
        for row in read_source("catalog/gcp_disk_prices.csv")
    ]


def _alibaba_rules(header: tuple[str, ...]) -> list[dict[str, str]]:
    """Alibaba states rates in MB/s of 10**6 bytes; no price is at hand."""
    rules = []
    for row in read_source("catalog/alibaba_disk_rules.csv"):
        own = {name: row[name] for name in header if name in row}
        for name in ("base", "per_gib", "cap"):
            own[f"mib_s_{name}"] = number(str(float(row[f"mb_s_{name}"]) * _MB_IN_MIB))
        own["typical_read_latency_ms"] = row["typical_latency_ms"]
        rules.append(dict.fromkeys(header, "") | own)
    return rules


def _limits() -> OutputTable:
    rows = [
        tuple(row[column] for column in LIMIT_HEADER)
        for row in read_source("catalog/gcp_disk_limits.csv")
    ]
    return table(LIMITS_FILE, LIMIT_HEADER, rows)


def _iops_tiers() -> dict[tuple[str, str], str]:
    """(region, type) -> '0:0.065|32000:0.0455': the price of each IOPS above that many."""
    tiers = defaultdict(list)
    for row in read_source("catalog/ebs_iops_tiers.csv"):
        tiers[row["region"], row["volume_type"]].append(
            (int(row["above_iops"]), number(row["usd_per_iops_month"]))
        )
    return {
        key: "|".join(f"{above}:{usd}" for above, usd in sorted(steps))
        for key, steps in tiers.items()
    }


def _is_priced(row: dict[str, str], tiers: dict[tuple[str, str], str]) -> bool:
    """io2's IOPS read 0 in the source where its tiers were not parsed: missing, never free."""
    return row["volume_type"] != "io2" or (row["region"], "io2") in tiers


def _price_row(row: dict[str, str], tiers: dict[tuple[str, str], str]) -> tuple[str, ...]:
    per_iops = number(row["usd_per_provisioned_iops_month"])
    return (
        row["region"],
        row["volume_type"],
        number(row["usd_per_gb_month"]),
        tiers.get((row["region"], row["volume_type"]), f"0:{per_iops}"),
        number(row["usd_per_provisioned_mibps_month"]),
        provenance.DISK_PRICES.id,
    )
