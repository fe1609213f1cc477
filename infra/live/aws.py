"""Fetches AWS's current prices and quotas: with an account by API, without one from AWS's public lists.

With an account this calls `pricing:GetProducts`, `ec2:DescribeSpotPriceHistory`,
`ec2:DescribeInstanceTypeOfferings` and `servicequotas:GetServiceQuota`.

The public price list is documented in AWS's "Reading the price list" of the bulk API: `region_index.json`
names the file of each region. As CSV it has five lines about the list, column names, and a row for each
price. A file has hundreds of MB, of which we need a few thousand rows, so it is read as a stream. The spot
advisor is one JSON of some MB, without a date: the saving in percent and how often instances are interrupted,
by region, system and type."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property, partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from advisor.catalog.support import quota_code
from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.session import (
    NoQuote,
    Quote,
    as_live_errors,
    client,
    in_portions,
    one_price,
    price_from,
    required,
    unreadable,
)
from advisor.infra.live.web import Say, WebList, streamed

# The API runs in a few regions only; this one has the prices of all.
_SERVED_IN = "us-east-1"
# The attributes of the plain product among a type's many: Linux, nothing pre-installed, on shared hosts, used
# (not reserved), in the region itself, not in a local zone.
PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "locationType": "AWS Region",
}


def on_demand(names: Sequence[str], region: str, today: date) -> Iterator[Quote | NoQuote]:
    """The on-demand price of each type, or why there is none; `LiveError` if the service fails."""
    pricing = client("pricing", _SERVED_IN)
    for name in names:
        wanted = {**PLAIN, "instanceType": name, "regionCode": region}
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
        with as_live_errors("pricing"):
            pages = pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
            products = [text for page in pages for text in required(page, "PriceList", "pricing")]
        try:
            prices = {price for text in products for price in _prices(json.loads(text), wanted)}
        except (ValueError, TypeError, AttributeError, KeyError):
            yield NoQuote(instance_type=name, why="the price list answered what cannot be read")
        else:  # several prices would mean that our filters are wrong
            yield one_price(name, prices, (region, Market.ON_DEMAND), today)


def _prices(product: Mapping[str, Any], wanted: Mapping[str, str]) -> Iterator[float]:
    """The hourly prices of a product; none if its attributes differ from the requested ones."""
    attributes = product["product"]["attributes"]
    answer = {**wanted, **attributes, "instanceType": attributes["instanceType"]}
    if any(answer[field] != value for field, value in wanted.items()):
        return
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = price_from(dimension["pricePerUnit"].get("USD", ""))
            if dimension["unit"] == "Hrs" and usd is not None:
                yield usd


_SPOT = "spot prices"


def spot(names: Sequence[str], region: str, today: date) -> Iterator[Quote | NoQuote]:
    """Each type's spot price in its cheapest zone, or why it has none; `LiveError` if the service fails."""
    now = datetime.now(UTC)
    operation = "describe_spot_price_history", "SpotPriceHistory", _SPOT
    wanted = {"ProductDescriptions": ["Linux/UNIX"], "StartTime": now, "EndTime": now}
    rows = _described_rows(region, names, operation, lambda portion: {"InstanceTypes": portion, **wanted})
    newest = newest_by_zone(list(rows))
    for name in names:
        yield _spot_quote(name, region, newest.get(name, {}), today)


def _spot_quote(
    name: str, region: str, zones: Mapping[str, set[float | None]], today: date
) -> Quote | NoQuote:
    """The quote of the cheapest zone; none if a zone has two prices at the same time."""
    if not zones:
        return NoQuote(instance_type=name, why=f"no spot price in {region}")
    doubtful = sorted(zone for zone, answer in zones.items() if len(answer) > 1)
    if doubtful:
        return NoQuote(instance_type=name, why=f"{doubtful[0]} has several spot prices at once")
    existing = [(usd, zone) for zone, answer in zones.items() for usd in answer if usd is not None]
    if not existing:
        return NoQuote(instance_type=name, why="what it costs on the spot market is no price")
    usd, zone = min(existing)
    market = Market.SPOT
    return Quote(instance_type=name, region=region, market=market, usd_per_hour=usd, as_of=today, zone=zone)


def newest_by_zone(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, set[float | None]]]:
    """The latest prices by type and zone, since the service may list older ones, too."""
    newest: dict[str, dict[str, tuple[str, set[float | None]]]] = {}
    for row in rows:
        fields = ("InstanceType", "AvailabilityZone", "SpotPrice", "Timestamp")
        name, zone, price, when = (str(required(row, field, _SPOT)) for field in fields)
        zones = newest.setdefault(name, {})
        last, answer = zones.get(zone, ("", set()))
        if when > last:
            zones[zone] = when, {price_from(price)}
        elif when == last:
            answer.add(price_from(price))
    return {name: {zone: answer for zone, (_, answer) in zones.items()} for name, zones in newest.items()}


_OFFERINGS = "instance type offerings"


def offered(names: Sequence[str], region: str) -> frozenset[str]:
    """The types of `names` that the region offers; `LiveError` if the service fails."""
    operation = "describe_instance_type_offerings", "InstanceTypeOfferings", _OFFERINGS
    rows = _described_rows(
        region,
        names,
        operation,
        lambda named: {"LocationType": "region", "Filters": [{"Name": "instance-type", "Values": named}]},
    )
    return frozenset(names) & {required(row, "InstanceType", _OFFERINGS) for row in rows}


def _described_rows(
    region: str,
    names: Sequence[str],
    operation: tuple[str, str, str],
    request: Callable[[list[str]], dict[str, Any]],
) -> Iterator[Any]:
    method, field, what = operation
    ec2 = client("ec2", region)
    for portion in in_portions(names):
        with as_live_errors(what):
            pages = ec2.get_paginator(method).paginate(**request(portion))
            rows = [row for page in pages for row in required(page, field, what)]
        yield from rows


def vcpu_quota(instance_type: str, region: str, market: Market) -> float | None:
    """The account's quota of running vCPUs for the type's kind; None if its quota code is unknown."""
    code = quota_code(instance_type, market)
    if code is None:
        return None
    quotas = client("service-quotas", region)
    with as_live_errors("quotas"):
        answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)
    value = required(required(answer, "Quota", "quotas"), "Value", "quotas")
    if not math.isfinite(value) or value < 0:
        raise LiveError(f"AWS reports a quota of {value} vCPUs for {code}, which is none")
    return float(value)


SERVICE = "AWS's public price list"
URL = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/region_index.json"
SPOT_SERVICE = "AWS's public spot advisor"
SPOT_URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_BANDS = dict(enumerate(("under 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "over 20 %")))
# Largest file and longest line to read; us-east-1 had some 300 MB in 2025.
MOST_MIB = 2048
MOST_LINE_BYTES = 2**16
_LINES_BEFORE = 5
# The file's columns for the attributes by which the Price List API filters.
_COLUMNS = {
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "preInstalledSw": "Pre Installed S/W",
    "capacitystatus": "CapacityStatus",
    "locationType": "Location Type",
}
_ROW = {
    "TermType": "OnDemand",
    "Unit": "Hrs",
    "Currency": "USD",
    **{column: PLAIN[name] for name, column in _COLUMNS.items()},
}
# Distinguishes capacity blocks; lists from before 2024 lack this column.
_MARKET_COLUMN = "MarketOption"


class AwsPrices:
    """AWS's public prices; the list of each region and the spot advisor are read once."""

    def __init__(self, index: WebList, advisor: WebList, say: Say = lambda _line: None) -> None:
        self._index = index
        self._advisor = advisor
        self._say = say
        self._by_region: dict[str, dict[str, set[float]]] = {}

    def quotes(
        self, names: Sequence[str], region: str, market: Market, today: date
    ) -> Iterator[Quote | NoQuote]:
        """The Linux price of each type, or why there is none; a spot price is the on-demand one less the
        saving in the spot advisor. `LiveError` if the list cannot be read completely."""
        if region not in self._by_region:
            self._by_region[region] = self._read_region(region)
        prices = self._by_region[region]
        for name in names:
            quote = one_price(name, prices.get(name, ()), (region, Market.ON_DEMAND), today)
            if market is Market.SPOT and isinstance(quote, Quote):
                quote = self._as_spot(quote)
            yield quote

    def _as_spot(self, quote: Quote) -> Quote | NoQuote:
        """The spot quote for an on-demand quote; none unless the saving is between 0 and 100 %."""
        name, advice = quote.instance_type, self._advice
        if isinstance(advice, LiveError):
            return NoQuote(instance_type=name, why=str(advice))
        try:
            advice_of_type = advice[quote.region]["Linux"][name]
            saving, band = price_from(advice_of_type["s"]), advice_of_type.get("r")
        except (KeyError, TypeError, AttributeError):
            saving = None
        if saving is None or saving >= 100:
            return NoQuote(instance_type=name, why=f"{SPOT_SERVICE} tells no saving in {quote.region}")
        return replace(
            quote,
            market=Market.SPOT,
            usd_per_hour=quote.usd_per_hour * (1 - saving / 100),
            estimated=True,
            terms=f"{_BANDS[band]} interrupted within a month"
            if isinstance(band, int) and band in _BANDS
            else "",
        )

    @cached_property
    def _advice(self) -> dict[str, Any] | LiveError:
        """The spot advisor's data by region; or the error, since on-demand prices work without them."""
        self._say(f"{SPOT_SERVICE}: reading {self._advisor.url}")
        try:
            (page,) = self._advisor.pages({}, lambda _page: None)
            return dict(page["spot_advisor"])
        except (KeyError, TypeError, ValueError):
            failed = unreadable(SPOT_SERVICE)
        except LiveError as error:
            failed = error
        self._say(f"{failed}: no spot price is refreshed")
        return failed

    def _read_region(self, region: str) -> dict[str, set[float]]:
        (index,) = self._index.pages({}, lambda _page: None)
        try:
            link = str(index["regions"][region]["currentVersionUrl"])
        except (KeyError, TypeError):
            raise unreadable(f"{SERVICE} of {region}") from None
        # Only the path is used, so that a substitute server for AWS also serves the file.
        address = urljoin(self._index.url, urlsplit(link).path.removesuffix(".json") + ".csv")
        source = WebList(service=SERVICE, url=address)
        self._say(f"{SERVICE} of {region}: reading {address}")
        return streamed(source, partial(_prices_in, region), MOST_MIB)


def _prices_in(region: str, pieces: Iterable[bytes]) -> dict[str, set[float]]:
    """The hourly on-demand prices by type."""
    prices: dict[str, set[float]] = {}
    try:
        rows = csv.reader(_lines(pieces))
        about = [next(rows) for _ in range(_LINES_BEFORE)]
        header = next(rows)
        name, usd = header.index("Instance Type"), header.index("PricePerUnit")
        conditions = _row_conditions(header, region).items()
        for row in rows:
            matches = all(row[column] in values for column, values in conditions)
            if matches and (price := price_from(row[usd])) is not None:
                prices.setdefault(row[name], set()).add(price)
    except (StopIteration, ValueError, IndexError, csv.Error):
        raise unreadable(SERVICE) from None
    if about[0][:1] != ["FormatVersion"] or not prices:
        raise unreadable(f"{SERVICE} of {region}")
    return prices


def _row_conditions(header: Sequence[str], region: str) -> dict[int, tuple[str, ...]]:
    """The values that a row's columns may have (by index) for a plain hourly on-demand Linux price."""
    wanted = {column: (value,) for column, value in _ROW.items()} | {"Region Code": (region,)}
    market = {_MARKET_COLUMN: ("", "OnDemand")} if _MARKET_COLUMN in header else {}
    return {header.index(column): values for column, values in (wanted | market).items()}


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text that arrives in pieces; `ValueError` for an overlong line or a cut last one."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > MOST_LINE_BYTES:
            raise ValueError("a line does not end")
        for line in whole:
            yield line.decode() + "\n"
    if rest:
        raise ValueError("the last line is cut off")
