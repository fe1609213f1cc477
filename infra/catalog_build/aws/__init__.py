"""AWS: types, offerings, prices and EBS."""

from __future__ import annotations

from infra.catalog_build.aws import sources
from infra.catalog_build.aws.disks import build_disks
from infra.catalog_build.aws.prices import build_prices
from infra.catalog_build.aws.types import build_types, offered_regions
from infra.catalog_build.wide import CloudPart


def build() -> CloudPart:
    """Everything of AWS."""
    types, origins = build_types()
    prices, unknown = build_prices(offered_regions())
    return CloudPart(
        name="aws",
        as_of=sources.PRICES.as_of,
        tables=(*types, *build_disks()),
        prices=tuple(prices),
        bases=sources.BASES,
        sources=(*origins, *sources.SOURCES),
        notes=(f"left out, priced but with no known facts: {', '.join(unknown) or 'none'}",),
    )
