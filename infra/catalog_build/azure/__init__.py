"""Azure: sizes with list and spot prices, managed disks."""

from __future__ import annotations

from advisor.infra.catalog_build.azure import sizes, sources
from advisor.infra.catalog_build.azure.disks import build_disks
from advisor.infra.catalog_build.azure.prices import build_prices
from advisor.infra.catalog_build.hosts import cloud_part
from advisor.infra.catalog_build.wide import CloudPart


def build() -> CloudPart:
    """Everything of Azure."""
    prices = build_prices()
    named = dict.fromkeys(row.instance_type for row in prices)
    told = sizes.told_gpu_sizes()
    return cloud_part(
        *("azure", sources.PRICES),
        [sizes.cpu_size(size) for size in named if not sizes.is_gpu_size(size)],
        *(prices, sources.BASES),
        apart=[sizes.gpu_size(size, told.get(size)) for size in named if sizes.is_gpu_size(size)],
        more=build_disks(named, prices),
        sources=sources.SOURCES,
    )
