"""What the host of a sweep costs, from the catalogue."""

from __future__ import annotations

from advisor.catalog import load_catalog
from advisor.catalog.matching import OfferQuery
from advisor.domain import Market
from advisor.errors import UsageError


def on_demand_usd_per_hour(instance_type: str) -> float:
    """The lowest on-demand price of an instance type in any region; `UsageError` for a type that
    is not known, or has no price."""
    catalog = load_catalog()
    instance = catalog.instance(instance_type)
    query = OfferQuery(cloud=instance.cloud, market=Market.ON_DEMAND, instances=(instance.name,))
    prices = [offer.price.usd_per_hour for offer in catalog.offers(query)]
    if not prices:
        raise UsageError(f"{instance_type} has no price in the catalogue; give --usd-per-hour")
    return min(prices)
