"""Azure: sizes with list and spot prices, managed disks."""

from __future__ import annotations

from advisor.infra.build.catalog.azure import prices, sizes
from advisor.infra.build.catalog.azure.disks import build_disks
from advisor.infra.build.catalog.hosts import cloud_part
from advisor.infra.build.catalog.wide import CloudPart


def build() -> CloudPart:
    """Build Azure's part."""
    priced = prices.build_prices()
    named = dict.fromkeys(row.instance_type for row in priced)
    told = sizes.told_gpu_sizes()
    return cloud_part(
        *("azure", prices.PRICES),
        [sizes.cpu_size(size) for size in named if not sizes.is_gpu_size(size)],
        *(priced, prices.BASES),
        apart=[sizes.gpu_size(size, told.get(size)) for size in named if sizes.is_gpu_size(size)],
        more=build_disks(named, priced),
        sources=prices.SOURCES,
    )
