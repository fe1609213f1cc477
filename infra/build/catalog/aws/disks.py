"""EBS: the rules of its volume types, and their prices with tiers of IOPS."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.infra.build.catalog.aws import sources
from advisor.infra.build.catalog.disks import SHARED_RULES_FILE, disk_tables
from advisor.infra.build.catalog.tables import OutputTable, number, read_source

_MIB_IN_GIB = 1024
# Where the tiers of IOPS begin, and the columns that price them.
_TIERS = {
    0: "usd_per_iops_month_tier1",
    32000: "usd_per_iops_month_above_32000",
    64000: "usd_per_iops_month_above_64000",
}


def build_disks() -> list[OutputTable]:
    """The rules of EBS's volume types, and what they cost by region."""
    rules = read_source("sparecores/ebs_volume_rules.csv")
    types = frozenset(rule["type"] for rule in rules)
    rows = read_source("catalog/aws_ebs_prices.csv")
    prices = [_price_row(row) for row in rows if row["volume_type"] in types]
    return disk_tables("aws", rules, prices, SHARED_RULES_FILE)


def _price_row(row: Mapping[str, str]) -> tuple[str, ...]:
    """Throughput is listed by the GiB/s; '0:0.065|32000:0.0455' are IOPS with their tiers."""
    tiers = [f"{start}:{number(row[column])}" for start, column in _TIERS.items() if row[column]]
    per_gib_s = float(row["usd_per_gibps_month"] or 0)
    return (
        row["region"],
        row["volume_type"],
        number(row["usd_per_gib_month"]),
        "|".join(tiers) or "0:0",
        number(str(per_gib_s / _MIB_IN_GIB)),
        sources.DISK_PRICES.id,
    )
