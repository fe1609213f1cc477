"""Records and checks shared by every cloud's part: sources, prices, region sets."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from advisor.catalog.bundle import stored_prices
from advisor.catalog.prices import BASES_FILE, SOURCES_FILE
from advisor.domain import PRICE_KINDS, Market
from advisor.infra.build.catalog.tables import OutputTable, number, read_source, table


class Source(Struct, frozen=True):
    """One origin; `as_of` is the date the facts were true, not the date of the build.

    `part` describes the data from this source. Data older than `max_age_days` (None: 90) is rejected by
    strict answers and reported as old. `note` warns users of facts that only the seller knows; it is joined
    to other warnings, so it has no capital, comma, semicolon or full stop."""

    id: str
    as_of: str
    licence: str
    origin: str
    part: str
    max_age_days: int | None = None
    note: str = ""


# How long prices stay valid. AWS lists of 2025-04-04 and 2026-02-17 are equal in 8,927 of 8,959 pairs, those
# of 2022-02-06 and 2026-02-17 in 99.8 % of 3,602. The others are P4, P5 and the largest U7i, which fell by up
# to 44 % in June 2025: accelerator lists get the same limit as other clouds' lists.
AWS_LIST_DAYS = 730
# EBS prices of 2022-02 and 2024-07 are equal in 131 of 131 pairs.
AWS_DISK_DAYS = 1500
# Azure's prices of 2026-05-20 and 2026-08-22 are equal in 4,078 of 4,078 pairs. Other large clouds are
# assumed to change as little within a year; this was not measured.
LIST_DAYS = 365
# Observed spot prices.
SPOT_DAYS = 90
# 63 neo-cloud prices changed to between 96 and 145 % within 90 days.
NEO_LIST_DAYS = 30


def sources_table(sources: Iterable[Source]) -> OutputTable:
    """Every source once; `ValueError` where two share an id."""
    known: dict[str, Source] = {}
    for one in sources:
        if known.setdefault(one.id, one) != one:
            raise ValueError(f"two sources are called {one.id}")
    header = ("source", "as_of", "licence", "origin", "part", "max_age_days", "note")
    rows = [
        (*(one.id, one.as_of, one.licence, one.origin, one.part), str(one.max_age_days or ""), one.note)
        for one in known.values()
    ]
    return table(SOURCES_FILE, header, rows)


Row = Mapping[str, str]


class Basis(Struct, frozen=True):
    """How prices are known, their currency, and the id of their source.

    With 90 % probability the true price lies between `low` and `high` times the stated one; both are 1 for a
    seller's list. `terms` are conditions of the offer."""

    id: str
    kind: str
    currency: str
    source: str
    low: float = 1.0
    high: float = 1.0
    terms: str = ""

    def __post_init__(self) -> None:
        known = {row["currency"] for row in read_source("catalog/currencies.csv")}
        if self.currency not in known:
            raise ValueError(f"{self.id}: '{self.currency}' is no known currency")
        if self.kind not in PRICE_KINDS:
            raise ValueError(f"{self.id}: '{self.kind}' is no way to know a price")
        if not 0 < self.low <= 1 <= self.high < math.inf:
            raise ValueError(f"{self.id}: no price lies between {self.low} and {self.high} of it")


class Cell(Struct, frozen=True):
    """One price as text, in the currency of its basis, and the id of that basis."""

    price: str
    basis: str


class PriceRow(Struct, frozen=True):
    """One type on one market: a price for each region, each with a basis."""

    instance_type: str
    market: str
    cells: Mapping[str, Cell]


class PriceFile(Struct, frozen=True):
    """Prices of one cloud on one market in file form."""

    path: str
    market: str
    regions: tuple[str, ...]
    offers: int
    content: bytes


class CloudPart(Struct, frozen=True):
    """All data of one cloud. `as_of` is the date of its list prices; `notes` are printed by the build."""

    name: str
    as_of: str
    tables: tuple[OutputTable, ...]
    prices: tuple[PriceRow, ...]
    bases: tuple[Basis, ...]
    sources: tuple[Source, ...]
    notes: tuple[str, ...] = ()


def basis_table(bases: Iterable[Basis]) -> OutputTable:
    """The table that prices refer to."""
    header = ("basis", "kind", "currency", "source", "low", "high", "terms")
    rows = [
        (one.id, one.kind, one.currency, one.source, f"{one.low:g}", f"{one.high:g}", one.terms)
        for one in dict.fromkeys(bases)  # clouds may share one
    ]
    if len({row[0] for row in rows}) < len(rows):
        raise ValueError("two bases have one id")
    return table(BASES_FILE, header, rows)


def price_cell(text: str, what: str) -> str:
    """A price in its shortest form; '' for 0, since sources write 0 for a missing price.

    `ValueError` for anything that is no price: negative, infinite, not a number."""
    if not text:
        return ""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what}: {text} is no price")
    return number(text) if value else ""


def price_row(instance_type: str, market: str, prices: Row, basis: str) -> PriceRow:
    """A row whose prices all have the same basis; empty prices are left out."""
    cells = {region: Cell(usd, basis) for region, usd in prices.items() if usd}
    return PriceRow(instance_type, market, cells)


def price_files(cloud: str, rows: Iterable[PriceRow]) -> list[PriceFile]:
    """One file for each market; `ValueError` if an offer has two prices."""
    by_market: dict[str, dict[str, dict[str, tuple[float, str]]]]
    by_market = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        kept = by_market[Market(row.market)][row.instance_type]
        for region, cell in row.cells.items():
            if region in kept:
                what = f"{row.instance_type} in {region} ({row.market})"
                raise ValueError(f"{cloud}: two prices for {what}")
            if not 0 < float(cell.price) < math.inf:
                raise ValueError(f"{cloud}: {cell.price} is no price of {row.instance_type}")
            kept[region] = float(cell.price), cell.basis
    return [_price_file(cloud, market, by_market[market]) for market in sorted(by_market)]


def _price_file(cloud: str, market: str, cells: Mapping[str, Mapping[str, tuple[float, str]]]) -> PriceFile:
    stored = stored_prices(market, cells)
    return PriceFile(
        path=f"catalog/{cloud}_prices_{market}",
        market=market,
        regions=tuple(stored.regions),
        offers=sum(map(len, cells.values())),
        content=stored.packed(),
    )


def region_sets(path: str, offered: Mapping[str, Iterable[str]]) -> tuple[OutputTable, dict[str, str]]:
    """The table of distinct region sets, and type -> id of its set; many types share a set."""
    sets = {name: tuple(sorted(set(regions))) for name, regions in offered.items()}
    ids = {regions: f"r{place:03d}" for place, regions in enumerate(sorted(set(sets.values())))}
    rows = [(ids[regions], " ".join(regions)) for regions in ids]
    named = {name: ids[regions] for name, regions in sets.items()}
    return table(path, ("region_set", "regions"), rows), named


def wide_prices(rows: Sequence[Row], keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """A wide source table as '/'-joined keys -> region -> checked price."""
    return {
        "/".join(row[key] for key in keys): {
            region: price_cell(cell, f"{row[keys[0]]} in {region}")
            for region, cell in row.items()
            if region not in keys
        }
        for row in rows
    }
