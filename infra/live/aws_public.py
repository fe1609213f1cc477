"""AWS's on-demand prices as it publishes them for everybody, in one file a region, and its advice on spot
prices.

Form: AWS's documentation, "Reading the price list" of the bulk API: `region_index.json` names the file of
each region; as CSV it begins with five lines about the list, then column names, then a row a price. A file
has hundreds of MB, of which a few thousand rows count: it is read as it arrives, and nothing else of it is
kept. The advice is one JSON of some MB: by region, system and type how many percent one saves, and how often
instances are taken back; it has no day."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property, partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.ec2 import PLAIN
from advisor.infra.live.session import NoQuote, Quote, one_price, price_from, unreadable
from advisor.infra.live.web import Say, WebList, streamed

SERVICE = "AWS's public price list"
URL = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/region_index.json"
SPOT_SERVICE = "AWS's public spot advisor"
SPOT_URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_BANDS = dict(enumerate(("under 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "over 20 %")))
# us-east-1 had some 300 MB in 2025; the largest file and the longest line that are read.
MOST_MIB = 2048
MOST_LINE_BYTES = 2**16
_LINES_BEFORE = 5
# A column of the file for each attribute that the Price List API filters by.
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
# Capacity blocks stand there too; lists of before 2024 do not have the column.
_MARKET_COLUMN = "MarketOption"
_EVERY_MIB = 50


class AwsPrices:
    """The list of a region, read once for all that is asked of it, and the advice once."""

    def __init__(self, index: WebList, advisor: WebList, say: Say = lambda _line: None) -> None:
        self._index = index
        self._advisor = advisor
        self._say = say
        self._told: dict[str, dict[str, set[float]]] = {}

    def quotes(
        self, names: Sequence[str], region: str, market: Market, today: date
    ) -> Iterator[Quote | NoQuote]:
        """The price of each type under Linux, or why there is none; a spot price is the on-demand one less
        the saving that the advisor tells. Raises `LiveError` where the list cannot be read whole."""
        if region not in self._told:
            self._told[region] = self._read(region)
        prices = self._told[region]
        for name in names:
            quote = one_price(name, prices.get(name, ()), (region, Market.ON_DEMAND), today)
            if market is Market.SPOT and isinstance(quote, Quote):
                quote = self._as_spot(quote)
            yield quote

    def _as_spot(self, quote: Quote) -> Quote | NoQuote:
        """The spot price after a saving on the on-demand price; a saving of nothing, or of everything,
        gives none."""
        name, advice = quote.instance_type, self._advice
        if isinstance(advice, LiveError):
            return NoQuote(instance_type=name, why=str(advice))
        try:
            advice_of_type = advice[quote.region]["Linux"][name]
            saving, band = price_from(advice_of_type["s"]), advice_of_type.get("r")
        except (KeyError, TypeError, AttributeError):
            saving = None
        if saving is None or saving >= 100:
            why = f"{SPOT_SERVICE} tells no saving in {quote.region}"
            return NoQuote(instance_type=name, why=why)
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
        """By region; or why there is none, which leaves the on-demand prices as they are."""
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

    def _read(self, region: str) -> dict[str, set[float]]:
        (index,) = self._index.pages({}, lambda _page: None)
        try:
            link = str(index["regions"][region]["currentVersionUrl"])
        except (KeyError, TypeError):
            raise unreadable(f"{SERVICE} of {region}") from None
        # Only the path counts: whoever answers for AWS tells the whole list.
        address = urljoin(self._index.url, urlsplit(link).path.removesuffix(".json") + ".csv")
        source = WebList(service=SERVICE, url=address)
        self._say(f"{SERVICE} of {region}: reading {address}")
        return streamed(source, partial(self._prices, region), MOST_MIB)

    def _prices(self, region: str, pieces: Iterable[bytes]) -> dict[str, set[float]]:
        """By type what an hour costs, of the rows that count."""
        prices: dict[str, set[float]] = {}
        try:
            rows = csv.reader(_lines(self._counted(pieces)))
            about = [next(rows) for _ in range(_LINES_BEFORE)]
            header = next(rows)
            name, usd = header.index("Instance Type"), header.index("PricePerUnit")
            counts = _counting(header, region)
            for row in rows:
                price = price_from(row[usd]) if counts(row) else None
                if price is not None:
                    prices.setdefault(row[name], set()).add(price)
        except (StopIteration, ValueError, IndexError, csv.Error):
            raise unreadable(SERVICE) from None
        if about[0][:1] != ["FormatVersion"] or not prices:
            raise unreadable(f"{SERVICE} of {region}")
        return prices

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        size, mebibytes = 0, 0
        for piece in pieces:
            size += len(piece)
            if size >= (mebibytes + _EVERY_MIB) * 2**20:
                mebibytes = size // 2**20
                self._say(f"{SERVICE}: {mebibytes} MiB read")
            yield piece


def _counting(header: Sequence[str], region: str) -> Callable[[Sequence[str]], bool]:
    """Whether a row is the on-demand price of an hour of Linux in the region itself."""
    wanted = [(header.index(column), value) for column, value in _ROW.items()]
    wanted.append((header.index("Region Code"), region))
    market = header.index(_MARKET_COLUMN) if _MARKET_COLUMN in header else None

    def counts(row: Sequence[str]) -> bool:
        if any(row[column] != value for column, value in wanted):
            return False
        return market is None or row[market] in ("", "OnDemand")

    return counts


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines of a text that arrives in pieces; `ValueError` for one that does not end, and for an
    end that is cut off."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > MOST_LINE_BYTES:
            raise ValueError("a line does not end")
        for line in whole:
            yield line.decode() + "\n"
    if rest:
        raise ValueError("the last line is cut off")
