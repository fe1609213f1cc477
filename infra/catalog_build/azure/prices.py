"""Prices of Azure's sizes: two lists of one interface, a month apart, and spot."""

from __future__ import annotations

from collections.abc import Mapping

from infra.catalog_build.azure import sources
from infra.catalog_build.tables import read_source
from infra.catalog_build.wide import Cell, PriceRow, price_row, wide_prices

Prices = Mapping[str, Mapping[str, str]]
# Prices this near to each other are the same one, rounded otherwise.
_SAME = 0.002


def build_prices() -> list[PriceRow]:
    """On-demand and spot prices by region."""
    older = wide_prices(read_source("catalog/azure_prices.csv.gz"), ("instance_type", "market"))
    newer = wide_prices(read_source("catalog/azure_gpu_prices.csv"), ("vm_size",))
    on_demand = _of_market(older, "on-demand")
    rows = [
        PriceRow(size, "on-demand", _cells(on_demand.get(size, {}), newer.get(size, {})))
        for size in sorted({*on_demand, *newer})
    ]
    spot = _of_market(older, "spot")
    rows += [price_row(size, "spot", spot[size], sources.OBSERVED.id) for size in sorted(spot)]
    return [row for row in rows if row.cells]


def _of_market(prices: Prices, market: str) -> dict[str, Mapping[str, str]]:
    end = f"/{market}"
    return {key.removesuffix(end): cells for key, cells in prices.items() if key.endswith(end)}


def _cells(older: Mapping[str, str], newer: Mapping[str, str]) -> dict[str, Cell]:
    """The newer list, but for sizes of which it has the price with Windows: there it is dearer than
    the older one, which is Linux alone."""
    both = [(float(older[r]), float(newer[r])) for r in older if older[r] and newer.get(r)]
    if any(abs(new / old - 1) > _SAME for old, new in both):
        newer = {}
    listed = {region: Cell(usd, sources.LIST.id) for region, usd in older.items() if usd}
    return listed | {region: Cell(usd, sources.GPU_LIST.id) for region, usd in newer.items() if usd}
