"""Instance prices: one row a type and market, one column a region."""

from __future__ import annotations

from dataclasses import dataclass

from infra.catalog_build import provenance
from infra.catalog_build.tables import OutputTable, number, read_source, table

PRICES_FILE = "catalog/aws_prices.csv"


@dataclass(frozen=True, slots=True)
class PricePart:
    """The price table, and the priced names that no type table knows."""

    table: OutputTable
    unknown: tuple[str, ...]


def build_prices(types: frozenset[str]) -> PricePart:
    """On-demand US-dollar prices of known types; a price for an unknown type is left out."""
    rows = [row for row in read_source("catalog/aws_ondemand_prices.csv") if _usable(row)]
    regions = sorted({row["region"] for row in rows})
    by_type: dict[str, dict[str, str]] = {}
    for row in rows:
        prices = by_type.setdefault(row["instance_type"], {})
        if row["region"] in prices:
            raise ValueError(f"two prices for {row['instance_type']} in {row['region']}")
        prices[row["region"]] = number(row["price_per_hour"])
    table_rows = [
        (name, "on-demand", provenance.PRICES.id, *(prices.get(region, "") for region in regions))
        for name, prices in by_type.items()
        if name in types
    ]
    header = ("instance_type", "market", "source", *regions)
    return PricePart(table(PRICES_FILE, header, table_rows), tuple(sorted(by_type.keys() - types)))


def _usable(row: dict[str, str]) -> bool:
    return row["currency"] == "USD" and float(row["price_per_hour"]) > 0
