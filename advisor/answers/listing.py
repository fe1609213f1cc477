"""What the catalogue has: its offers, a page of them, and one type."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.catalog import Catalog, OfferQuery, PartialOffer
from advisor.domain import Market, Offer, Price
from advisor.questions.models import ANY_MARKET, InstanceDetails, Offers
from advisor.questions.requests import hardware_fields
from advisor.render.blocks import price_block
from advisor.render.catalog import catalog_head, offer_document, place_of, type_document


def query_of(question: Offers) -> OfferQuery:
    """What the catalogue is asked for a list of offers."""
    market = question.market
    return OfferQuery(
        cloud=question.cloud.lower(),
        region=question.region,
        market=None if market == ANY_MARKET else Market(market),
        **hardware_fields(question),
        instances=question.instance,
        max_usd_per_hour=question.max_price,
    )


def all_offers(known: Catalog, query: OfferQuery) -> list[Offer | PartialOffer]:
    """Every priced offer, cheapest first."""
    found: list[Offer | PartialOffer] = [*known.offers(query), *known.partial_offers(query)]
    return sorted(found, key=place_of)


class Page(NamedTuple):
    """Some of the offers, cheapest first, and how many there are in all."""

    offers: list[Offer | PartialOffer]
    total: int

    def document(self, known: Catalog) -> dict[str, Any]:
        """`advisor.catalog/1`, with the offers of this page."""
        return catalog_head(known) | {"offers": [offer_document(one) for one in self.offers]}


def page_of(known: Catalog, query: OfferQuery, first: int, count: int) -> Page:
    """`count` offers from place `first` (0 is the cheapest); what is dearer is not built."""
    whole, priced = known.cheapest(query, first + count)
    partial = known.partial_offers(query)
    found: list[Offer | PartialOffer] = [*whole, *partial]
    found.sort(key=place_of)
    return Page(found[first : first + count], priced + len(partial))


def shown_type(known: Catalog, instance_type: str, question: InstanceDetails) -> dict[str, Any]:
    """`advisor.instance-type/1` of a type, with its prices by region.

    Raises `UsageError` for a type, cloud or region that nobody knows.
    """
    name = known.name_of(instance_type, question.cloud)
    cloud = known.partial_type(name, question.cloud).cloud
    prices = _prices(known, name, cloud, question.region, question.market)
    return type_document(known, name, cloud) | {
        "market": str(question.market),
        "prices": {where: price_block(price) for where, price in prices.items()},
    }


def _prices(
    known: Catalog, name: str, cloud: str, region: str | None, market: Market
) -> dict[str, Price]:
    """What it costs where that is known; a region that nobody knows is refused."""
    if region is not None:
        known.require_region(region, cloud)
    regions = [region] if region else list(known.regions(cloud))
    found = {where: known.price(name, where, market, cloud) for where in regions}
    return {where: price for where, price in found.items() if price}
