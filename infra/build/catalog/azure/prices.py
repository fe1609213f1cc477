"""Prices of Azure's sizes: two lists from one API, a month apart, and spot prices."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping

from advisor.infra.build.catalog.tables import read_source
from advisor.infra.build.catalog.wide import (
    LIST_DAYS,
    SPOT_DAYS,
    Basis,
    Cell,
    PriceRow,
    Source,
    price_row,
    wide_prices,
)

_RADAR = "andy-diericks/azure-pricing-radar@cf741f25 (Azure Retail Prices API; LRS)"

PRICES = Source(
    "azure-62ff0a98",
    "2026-05-20",
    "none (published prices)",
    "anycloud-sh/catalog@62ff0a98 (Azure Retail Prices API)",
    "Azure prices",
    LIST_DAYS,
)
SPOT = Source(
    "azure-spot-62ff0a98",
    "2026-05-20",
    "none (published prices)",
    "anycloud-sh/catalog@62ff0a98 (Azure Retail Prices API; spot)",
    "Azure spot prices",
    SPOT_DAYS,
)
GPU_PRICES = Source(
    "azure-352646f5",
    "2026-06-18",
    "Apache-2.0",
    "Azure/karpenter-provider-azure@352646f5 (Azure price list)",
    "Azure prices of GPU sizes",
    LIST_DAYS,
)
SIZES = Source(
    "azure-sizes",
    "2026-05-20",
    "plain facts",
    "names of sizes in Azure's price list; what a series has as recalled and not checked",
    "Azure sizes by series (not checked)",
)
GPU_SIZES = Source(
    "azure-gpu-sizes",
    "2026-01-27",
    "CC BY-SA 4.0",
    "SpareCores/sc-data-dumps@e8749bef (Azure SKUs API); anycloud-sh/catalog@62ff0a98; "
    "MicrosoftDocs/azure-compute-docs",
    "Azure GPU sizes",
)
DISK_RULES = Source(
    "azure-disk-rules",
    "2023-03-01",
    "CC BY 4.0",
    "MicrosoftDocs/azure-docs@1d25717f; MicrosoftDocs/azure-compute-docs@18c531ec",
    "Azure disk types",
)
DISK_PRICES = Source("azure-disks-cf741f25", "2026-08-22", "MIT", _RADAR, "Azure disk prices", LIST_DAYS)
ESTIMATED_DISKS = Source(
    "azure-disks-estimated",
    "2026-08-22",
    "MIT",
    f"westeurope's price by {_RADAR} x how dear instances are in the region",
    "Azure disk prices (estimated)",
    LIST_DAYS,
    "prices of Azure's disks are known in five regions of the EU and estimated elsewhere",
)
SOURCES = (PRICES, SPOT, GPU_PRICES, SIZES, GPU_SIZES, DISK_RULES, DISK_PRICES, ESTIMATED_DISKS)

LIST = Basis("azure", "list", "USD", PRICES.id)
GPU_LIST = Basis("azuregpu", "list", "USD", GPU_PRICES.id)
OBSERVED = Basis("azurespot", "observed", "USD", SPOT.id)
BASES = (LIST, GPU_LIST, OBSERVED)


Prices = Mapping[str, Mapping[str, str]]
# Prices this close (relative) count as equal except for rounding.
_SAME = 0.002
# The list has errors: F2ams_v6 to F64ams_v6 cost a tenth in newzealandnorth of their price elsewhere. A price
# that is off by more than this factor is dropped.
_SLIP = 2.0


def build_prices() -> list[PriceRow]:
    """On-demand and spot prices by region."""
    older = wide_prices(read_source("catalog/azure_prices.csv.gz"), ("instance_type", "market"))
    newer = wide_prices(read_source("catalog/azure_gpu_prices.csv"), ("vm_size",))
    on_demand = _of_market(older, "on-demand")
    slips = slips_of(on_demand)
    rows = [
        PriceRow(size, "on-demand", _cells(on_demand.get(size, {}), newer.get(size, {})))
        for size in sorted({*on_demand, *newer})
    ]
    spot = _of_market(older, "spot")
    rows += [price_row(size, "spot", spot[size], OBSERVED.id) for size in sorted(spot)]
    return [kept for row in rows if (kept := _without(row, slips)).cells]


def slips_of(prices: Prices) -> set[tuple[str, str]]:
    """Pairs (size, region) whose price differs by more than a factor of two from the size's median over all
    regions times the region's price level."""
    middle = {
        size: statistics.median(float(usd) for usd in cells.values() if usd)
        for size, cells in prices.items()
        if any(cells.values())
    }
    ratios: dict[str, dict[str, float]] = defaultdict(dict)
    for size, usual in middle.items():
        for region, usd in prices[size].items():
            if usd:
                ratios[region][size] = float(usd) / usual
    found = set()
    for region, of_size in ratios.items():
        dear = statistics.median(of_size.values())
        off = (size for size, r in of_size.items() if not 1 / _SLIP <= r / dear <= _SLIP)
        found |= {(size, region) for size in off}
    return found


def _without(row: PriceRow, slips: set[tuple[str, str]]) -> PriceRow:
    name = row.instance_type
    kept = {r: cell for r, cell in row.cells.items() if (name, r) not in slips}
    return PriceRow(name, row.market, kept)


def _of_market(prices: Prices, market: str) -> dict[str, Mapping[str, str]]:
    end = f"/{market}"
    return {key.removesuffix(end): cells for key, cells in prices.items() if key.endswith(end)}


def _cells(older: Mapping[str, str], newer: Mapping[str, str]) -> dict[str, Cell]:
    """Prices from the newer list, or from the older one for sizes whose newer price includes Windows: such
    prices are higher than in the older list, which has Linux only."""
    both = [(float(older[r]), float(newer[r])) for r in older if older[r] and newer.get(r)]
    if any(abs(new / old - 1) > _SAME for old, new in both):
        newer = {}
    listed = {region: Cell(usd, LIST.id) for region, usd in older.items() if usd}
    return listed | {region: Cell(usd, GPU_LIST.id) for region, usd in newer.items() if usd}
