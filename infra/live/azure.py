"""Prices of Azure's virtual machines from the Retail Prices API, which needs no credentials.

Form of an answer: Microsoft Learn, "Azure Retail Prices overview" (version 2023-01-01-preview). A page holds
`Items`, each the meter of a size (`armSkuName`) in a region (`armRegionName`), and `NextPageLink`. Rates of
savings plans stand within an item and are left alone; reservations are items of another `type`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from advisor.domain import Market
from advisor.infra.live.session import NoQuote, Quote, one_price, price_from, unreadable
from advisor.infra.live.web import Parameters, Say, WebList

SERVICE = "Azure's price list"
URL = "https://prices.azure.com/api/retail/prices"
_VERSION = "2023-01-01-preview"
# Sizes that one filter names: a longer address is refused.
_PORTION = 15
_HOUR = "1 Hour"
# Of `productName`: other operating systems, and what runs on a size without being that size.
_OTHER_PRODUCTS = ("windows", "cloudservices", "cloud services", "dedicated host")


class AzurePrices:
    """Azure's list; what was told of a few sizes in a region is kept for their other market."""

    def __init__(self, source: WebList, say: Say = lambda _line: None) -> None:
        self._source = source
        self._say = say
        self._told: dict[tuple[str, tuple[str, ...]], list[Any]] = {}

    def quotes(
        self, names: Sequence[str], region: str, market: Market, today: date
    ) -> Iterator[Quote | NoQuote]:
        """The Linux price of each size, on demand or spot, or why none; `LiveError` if away."""
        for start in range(0, len(names), _PORTION):
            portion = tuple(names[start : start + _PORTION])
            items = self._items(region, portion)
            for name in portion:
                yield _quote(name, items, region, market, today)

    def _items(self, region: str, portion: tuple[str, ...]) -> list[Any]:
        if (region, portion) not in self._told:
            pages = self._source.pages(_question(region, portion), self._following, self._say)
            # A list that lies holds much else: that is not kept.
            sizes = {name.casefold() for name in portion}
            items = (item for page in pages for item in self._listed(page))
            self._told[region, portion] = [item for item in items if _size(item) in sizes]
        return self._told[region, portion]

    def _listed(self, page: Mapping[str, Any]) -> list[Any]:
        items = page.get("Items")
        if not isinstance(items, list):
            raise unreadable(self._source.service)
        return items

    def _following(self, page: Mapping[str, Any]) -> Parameters | None:
        link = page.get("NextPageLink") or None
        if link is None:
            return None
        try:
            return dict(parse_qsl(urlsplit(link).query, strict_parsing=True))
        except (ValueError, TypeError, AttributeError):
            raise unreadable(self._source.service) from None


def _question(region: str, portion: Sequence[str]) -> Parameters:
    sizes = " or ".join(f"armSkuName eq '{name}'" for name in portion)
    conditions = (
        "serviceName eq 'Virtual Machines'",
        f"armRegionName eq '{region}'",
        "priceType eq 'Consumption'",
        f"({sizes})",
    )
    return {"api-version": _VERSION, "currencyCode": "USD", "$filter": " and ".join(conditions)}


def _quote(name: str, items: Sequence[Any], region: str, market: Market, today: date) -> Quote | NoQuote:
    """A price that stands there under the wrong unit or currency is refused with that reason."""
    own = [item for item in items if _size(item) == name.casefold()]
    try:
        meters = [item for item in own if _is_asked(item, region, market, today)]
        refused = [why for item in meters if (why := _why_not(item))]
        # The same size may be metered for a neighbouring region, too.
        first = [item for item in meters if item.get("isPrimaryMeterRegion") is True] or meters
        prices = {usd for item in first if (usd := price_from(item["retailPrice"])) is not None}
    except (TypeError, KeyError, AttributeError, ValueError):
        return NoQuote(instance_type=name, why="the price list answered what cannot be read")
    if refused:
        return NoQuote(instance_type=name, why=refused[0])
    return one_price(name, prices, (region, market), today)


def _size(item: Any) -> str:
    """The size of an item; empty for a row that is no item, so that the others can still be read."""
    name = item.get("armSkuName") if isinstance(item, dict) else None
    return name.casefold() if isinstance(name, str) else ""


def _is_asked(item: Mapping[str, Any], region: str, market: Market, today: date) -> bool:
    """Whether the meter of a size is for this region and market, under Linux, and in force."""
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


def _why_not(item: Mapping[str, Any]) -> str:
    usd = price_from(item["retailPrice"])
    if item["currencyCode"] != "USD":
        return "the price list tells its price in another currency"
    if item["unitOfMeasure"] != _HOUR or item.get("tierMinimumUnits", 0):
        return "the price list does not tell its price by the hour"
    return "what it costs by the price list is no price" if usd is None else ""
