"""AWS: types, offerings, prices and EBS."""

from __future__ import annotations

from advisor.infra.build.catalog.aws import sources
from advisor.infra.build.catalog.aws.prices import build_prices, listed_prices
from advisor.infra.build.catalog.aws.types import build_disks, build_types, offered_regions, read_types
from advisor.infra.build.catalog.wide import CloudPart


def build() -> CloudPart:
    """Build AWS's part."""
    listed = listed_prices()
    offered = offered_regions(listed.cells)
    types, origins = build_types(offered)
    prices = build_prices({row["instance_type"]: row for row in read_types()}, offered, listed)
    return CloudPart(
        name="aws",
        as_of=sources.LIST_2026_07.as_of,
        tables=(*types, *build_disks()),
        prices=tuple(prices.rows),
        bases=tuple(prices.bases),
        sources=(*origins, *sources.SOURCES),
        notes=(f"left out, priced but with no known facts: {', '.join(prices.unknown) or 'none'}",),
    )
