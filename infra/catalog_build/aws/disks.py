"""EBS: the rules of its volume types, and their prices with tiers of IOPS."""

from __future__ import annotations

from collections import defaultdict

from infra.catalog_build.aws import sources
from infra.catalog_build.disks import disk_tables
from infra.catalog_build.tables import OutputTable, number, read_source


def build_disks() -> list[OutputTable]:
    """The rules of EBS's volume types, and what they cost where that is known."""
    rules = read_source("catalog/ebs_volume_rules.csv")
    types = frozenset(rule["type"] for rule in rules)
    tiers = _iops_tiers()
    prices = [
        _price_row(row, tiers)
        for row in read_source("catalog/aws_ebs_prices.csv")
        if row["volume_type"] in types and _is_priced(row, tiers)
    ]
    return disk_tables("aws", rules, prices)


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
        sources.DISK_PRICES.id,
    )
