"""Azure: sizes with list and spot prices, managed disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from advisor.catalog.instances import TYPE_COLUMNS
from infra.catalog_build.azure import sizes, sources
from infra.catalog_build.azure.disks import build_disks
from infra.catalog_build.azure.prices import build_prices
from infra.catalog_build.tables import OutputTable, table
from infra.catalog_build.wide import CloudPart, region_sets

TYPES_FILE = "catalog/azure_instance_types.csv"
# Facts of GPU sizes come from a source under CC BY-SA 4.0.
GPU_TYPES_FILE = "sparecores/azure_instance_types.csv"


def build() -> CloudPart:
    """Everything of Azure; a size is offered where it has a price."""
    prices = build_prices()
    offered: dict[str, set[str]] = {}
    for row in prices:
        offered.setdefault(row.instance_type, set()).update(row.cells)
    sets, set_of = region_sets("catalog/azure_region_sets.csv", offered)
    told = sizes.told_gpu_sizes()
    gpus = [size for size in offered if sizes.is_gpu_size(size)]
    cpus = [size for size in offered if not sizes.is_gpu_size(size)]
    return CloudPart(
        "azure",
        sources.PRICES.as_of,
        (
            _types(TYPES_FILE, map(sizes.cpu_size, cpus), set_of),
            _types(GPU_TYPES_FILE, (sizes.gpu_size(size, told.get(size)) for size in gpus), set_of),
            sets,
            *build_disks(offered, prices),
        ),
        tuple(prices),
        sources.BASES,
        sources.SOURCES,
    )


def _types(path: str, rows: Iterable[Mapping[str, str]], set_of: Mapping[str, str]) -> OutputTable:
    placed = [dict(row) | {"region_set": set_of[row["instance_type"]]} for row in rows]
    return table(path, TYPE_COLUMNS, [[row.get(c, "") for c in TYPE_COLUMNS] for row in placed])
