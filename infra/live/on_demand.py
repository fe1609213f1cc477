"""On-demand prices from the AWS Price List Query API (`pricing:GetProducts`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from advisor.domain import Market
from advisor.infra.live.quotes import NoQuote, Quote, one_price, price_from
from advisor.infra.live.session import as_live_errors, client, required

# The API is served in a few regions only; this one knows the prices of all.
_SERVED_IN = "us-east-1"
# What "an hour of this type" means among a type's many products: Linux, nothing pre-installed,
# on shared hosts, used (not a reservation's own), in the region itself, not in a city's zone of it.
PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "locationType": "AWS Region",
}


def on_demand(names: Sequence[str], region: str, today: date) -> Iterator[Quote | NoQuote]:
    """One quote, or the reason why there is none, for each type.

    Raises `LiveError` where the service cannot be asked at all.
    """
    pricing = client("pricing", _SERVED_IN)
    for name in names:
        with as_live_errors("pricing"):
            products = _products(pricing, name, region)
        yield _quote(name, region, products, today)


def _products(pricing: Any, name: str, region: str) -> list[str]:
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in _wanted(name, region).items()
    ]
    pages = pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    return [text for page in pages for text in required(page, "PriceList", "pricing")]


def _wanted(name: str, region: str) -> dict[str, str]:
    return {**PLAIN, "instanceType": name, "regionCode": region}


def _quote(name: str, region: str, products: Sequence[str], today: date) -> Quote | NoQuote:
    """Exactly one price must remain: two of them mean that we asked for the wrong thing."""
    wanted = _wanted(name, region)
    try:
        prices = {price for text in products for price in _prices(json.loads(text), wanted)}
    except (ValueError, TypeError, AttributeError, KeyError):
        return NoQuote(instance_type=name, why="the price list answered what cannot be read")
    return one_price(name, prices, (region, Market.ON_DEMAND), today)


def _prices(product: Mapping[str, Any], wanted: Mapping[str, str]) -> Iterator[float]:
    """Prices of a product, where it is what was asked for: an answer may be of another question."""
    attributes = product["product"]["attributes"]
    answer = {**wanted, **attributes, "instanceType": attributes["instanceType"]}
    if any(answer[field] != value for field, value in wanted.items()):
        return
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = price_from(dimension["pricePerUnit"].get("USD", ""))
            if dimension["unit"] == "Hrs" and usd is not None:
                yield usd
