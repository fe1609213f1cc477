"""Prices of Azure's virtual machines from the Retail Prices API, which needs no credentials.

The answers are documented in Microsoft Learn, "Azure Retail Prices overview" (version 2023-01-01-preview). A
page has `Items`, each the meter of a size (`armSkuName`) in a region (`armRegionName`), and `NextPageLink`.
Rates of savings plans are inside items, and are ignored; reservations are items of another `type`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from advisor.domain import Market
from advisor.infra.live.session import NoQuote, Quote, one_price, price_from, unreadable
from advisor.infra.live.web import Parameters, WebList

SERVICE = "Azure's price list"
URL = "https://prices.azure.com/api/retail/prices"
_VERSION = "2023-01-01-preview"
# Sizes in one filter; Azure refuses longer addresses.
_PORTION = 15
_HOUR = "1 Hour"
# Parts of `productName` for other operating systems, and for services that run on a size.
_OTHER_PRODUCTS = ("windows", "cloudservices", "cloud services", "dedicated host")


class AzurePrices:
    """Azure's price list; answers are cached, since one has both markets of its sizes."""

    def __init__(self, source: WebList) -> None:
        self._source = source
        self._cache: dict[tuple[str, tuple[str, ...]], list[Any]] = {}

    def quotes(
        self, names: Sequence[str], region: str, market: Market, today: date
    ) -> Iterator[Quote | NoQuote]:
        """The Linux price of each size, or why it has none; `LiveError` if the service fails."""
        for start in range(0, len(names), _PORTION):
            portion = tuple(names[start : start + _PORTION])
            items = self._items(region, portion)
            for name in portion:
                yield _quote(name, items, region, market, today)

    def _items(self, region: str, portion: tuple[str, ...]) -> list[Any]:
        if (region, portion) not in self._cache:
            pages = self._source.pages(_parameters(region, portion), self._next_parameters)
            # Keep only the requested sizes: a faulty list may send any number of others.
            sizes = {name.casefold() for name in portion}
            items = (item for page in pages for item in self._items_of(page))
            self._cache[region, portion] = [item for item in items if _size(item) in sizes]
        return self._cache[region, portion]

    def _items_of(self, page: Mapping[str, Any]) -> list[Any]:
        items = page.get("Items")
        if not isinstance(items, list):
            raise unreadable(self._source.service)
        return items

    def _next_parameters(self, page: Mapping[str, Any]) -> Parameters | None:
        link = page.get("NextPageLink") or None
        if link is None:
            return None
        try:
            return dict(parse_qsl(urlsplit(link).query, strict_parsing=True))
        except (ValueError, TypeError, AttributeError):
            raise unreadable(self._source.service) from None


def _parameters(region: str, portion: Sequence[str]) -> Parameters:
    sizes = " or ".join(f"armSkuName eq '{name}'" for name in portion)
    conditions = (
        "serviceName eq 'Virtual Machines'",
        f"armRegionName eq '{region}'",
        "priceType eq 'Consumption'",
        f"({sizes})",
    )
    return {"api-version": _VERSION, "currencyCode": "USD", "$filter": " and ".join(conditions)}


def _quote(name: str, items: Sequence[Any], region: str, market: Market, today: date) -> Quote | NoQuote:
    """The quote for a size; none for a price with the wrong unit or currency, with that reason."""
    own = [item for item in items if _size(item) == name.casefold()]
    try:
        meters = [item for item in own if _is_meter_of(item, region, market, today)]
        refused = [why for item in meters if (why := _defect(item))]
        # A size may have a second meter, from a neighbouring region.
        first = [item for item in meters if item.get("isPrimaryMeterRegion") is True] or meters
        prices = {usd for item in first if (usd := price_from(item["retailPrice"])) is not None}
    except (TypeError, KeyError, AttributeError, ValueError):
        return NoQuote(instance_type=name, why="the price list answered what cannot be read")
    if refused:
        return NoQuote(instance_type=name, why=refused[0])
    return one_price(name, prices, (region, market), today)


def _size(item: Any) -> str:
    """The size of an item; empty for a malformed item, so that the others can still be read."""
    name = item.get("armSkuName") if isinstance(item, dict) else None
    return name.casefold() if isinstance(name, str) else ""


def _is_meter_of(item: Mapping[str, Any], region: str, market: Market, today: date) -> bool:
    """True if an item is a Linux meter for this region and market, valid today."""
    meter = f"{item['meterName']} {item['skuName']}".casefold()
    product = item["productName"].casefold()
    return (
        item["armRegionName"] == region
        and item["serviceName"] == "Virtual Machines"
        and item["type"] == "Consumption"
        and ("spot" in meter) == (market is Market.SPOT)
        and "low priority" not in meter
        and not any(other in product for other in _OTHER_PRODUCTS)
        and date.fromisoformat(item["effectiveStartDate"][:10]) <= today
        and (item.get("effectiveEndDate") or "9999-12-31")[:10] > today.isoformat()
    )


def _defect(item: Mapping[str, Any]) -> str:
    """The reason why a meter has no usable price; empty if it has one."""
    usd = price_from(item["retailPrice"])
    if item["currencyCode"] != "USD":
        return "the price list tells its price in another currency"
    if item["unitOfMeasure"] != _HOUR or item.get("tierMinimumUnits", 0):
        return "the price list does not tell its price by the hour"
    return "what it costs by the price list is no price" if usd is None else ""
