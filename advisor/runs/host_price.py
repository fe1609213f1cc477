"""What the host of a sweep costs, from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain import Market
from advisor.errors import UsageError
from advisor.quantities import parse_positive

NAMES = ("usd_per_hour", "instance")


def on_demand_usd_per_hour(instance_type: str) -> float:
    """The lowest on-demand price of an instance type in any region; `UsageError` for a type that
    is not known, or has no price."""
    from advisor.catalog import load_catalog
    from advisor.catalog.matching import OfferQuery

    catalog = load_catalog()
    instance = catalog.instance(instance_type)
    query = OfferQuery(cloud=instance.cloud, market=Market.ON_DEMAND, instances=(instance.name,))
    prices = [offer.price.usd_per_hour for offer in catalog.offers(query)]
    if not prices:
        raise UsageError(
            "{instance_type} has no price in the catalogue",
            instance_type=instance_type,
            hint="give --usd-per-hour",
        )
    return min(prices)


def host_usd_per_hour(answers: Mapping[str, Any]) -> float | None:
    """The price that is given, or that of the type on demand; None where neither is."""
    if answers["usd_per_hour"] and answers["instance"]:
        raise UsageError(
            "--usd-per-hour and --instance both price this host",
            field="usd_per_hour",
            hint="give one of them",
        )
    if answers["usd_per_hour"]:
        return parse_positive(answers["usd_per_hour"], "--usd-per-hour")
    if not answers["instance"]:
        return None
    return on_demand_usd_per_hour(answers["instance"])
