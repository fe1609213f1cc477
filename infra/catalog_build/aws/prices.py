"""AWS instance prices: listed in us-east-1, estimated elsewhere and on spot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.catalog_build.aws.estimates import HOME, on_demand_estimates, spot_estimates
from infra.catalog_build.aws.sources import LIST_BASIS, REGIONAL_SPOT_BASES, SPOT_BASES
from infra.catalog_build.tables import read_source
from infra.catalog_build.wide import PriceRow, price_cell, price_row


def build_prices(offered: Mapping[str, Iterable[str]]) -> tuple[list[PriceRow], list[str]]:
    """All prices, and priced names without facts. `offered`: every known type with its regions,
    none for a retired one."""
    listed = _listed()
    existing = {name: usd for name, usd in listed.items() if name in offered}
    here = {name: {HOME: usd} for name, usd in existing.items()}
    elsewhere = on_demand_estimates(existing, offered)
    current = {name: cells for name, cells in here.items() if HOME in offered[name]}
    far = {
        row.instance_type: {region: cell.price for region, cell in row.cells.items()}
        for row in elsewhere
    }
    rows = [
        *(price_row(name, "on-demand", cells, LIST_BASIS.id) for name, cells in here.items()),
        *elsewhere,
        *spot_estimates(current, SPOT_BASES),
        *spot_estimates(far, REGIONAL_SPOT_BASES),
    ]
    return rows, sorted(listed.keys() - offered.keys())


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
