"""EBS volume types as numbers, and their monthly prices by region."""

from __future__ import annotations

from collections import defaultdict

from infra.catalog_build import provenance
from infra.catalog_build.tables import OutputTable, number, read_source, table

RULES_FILE = "catalog/aws_disk_types.csv"
PRICES_FILE = "catalog/aws_disk_prices.csv"

PRICE_HEADER = (
    "region",
    "type",
    "usd_per_gib_month",
    "usd_per_iops_month",
    "usd_per_mib_s_month",
    "source",
)


def build_disks() -> list[OutputTable]:
    """The rules of each volume type, and what it costs where that is known."""
    rules = read_source("catalog/ebs_volume_rules.csv")
    header = tuple(rules[0])
    types = frozenset(rule["type"] for rule in rules)
    tiers = _iops_tiers()
    prices = [
        _price_row(row, tiers)
        for row in read_source("catalog/aws_ebs_prices.csv")
        if row["volume_type"] in types and _is_priced(row, tiers)
    ]
    return [
        table(RULES_FILE, header, [tuple(rule[column] for column in header) for rule in rules]),
        table(PRICES_FILE, PRICE_HEADER, prices),
    ]


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
