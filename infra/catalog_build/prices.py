"""AWS instance prices: listed in us-east-1, estimated elsewhere and on spot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infra.catalog_build import wide
from infra.catalog_build.regional import HOME, on_demand_estimates, spot_estimates
from infra.catalog_build.tables import OutputTable, read_source
from infra.catalog_build.wide import PriceRow, price_cell, price_table

PRICES_FILE = "catalog/aws_prices.csv"
ESTIMATES_FILE = "catalog/aws_prices_estimated.csv"


@dataclass(frozen=True, slots=True)
class PricePart:
    """The price tables (us-east-1 apart from the rest), and priced names without facts."""

    tables: tuple[OutputTable, ...]
    unknown: tuple[str, ...]


def build_prices(offered: Mapping[str, Iterable[str]]) -> PricePart:
    """`offered`: every known type with its regions, none for a retired one."""
    listed = _listed()
    existing = {name: usd for name, usd in listed.items() if name in offered}
    here = {name: {HOME: usd} for name, usd in existing.items()}
    elsewhere = on_demand_estimates(existing, offered)
    current = {name: cells for name, cells in here.items() if HOME in offered[name]}
    home_rows = [PriceRow(name, wide.AWS_LIST, cells) for name, cells in here.items()]
    home_rows += spot_estimates(current, wide.AWS_SPOT)
    far = {row.instance_type: row.cells for row in elsewhere}
    elsewhere += spot_estimates(far, wide.AWS_REGIONAL_SPOT)
    tables = (price_table(PRICES_FILE, home_rows), price_table(ESTIMATES_FILE, elsewhere))
    return PricePart(tables, tuple(sorted(listed.keys() - offered.keys())))


def _listed() -> dict[str, str]:
    """Type -> US dollars an hour in us-east-1; `ValueError` for a row that is no price."""
    listed: dict[str, str] = {}
    for row in read_source("catalog/aws_ondemand_prices.csv"):
        name, currency = row["instance_type"], row["currency"]
        if currency != "USD" or row["region"] != HOME:
            raise ValueError(f"{name}: a price in '{currency}' of {row['region']}")
        if name in listed:
            raise ValueError(f"two prices for {name} in {HOME}")
        listed[name] = price_cell(row["price_per_hour"], name)
    return listed
