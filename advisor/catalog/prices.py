"""Prices of instances (a row a type and market, a column a region), and the parts of a disk's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import NamedTuple

from advisor.catalog.files import Files, Table
from advisor.catalog.instances import Origin, read_origins
from advisor.domain import ESTIMATED, FREE, Market, Price
from advisor.errors import DataError

# Columns before the regions.
KEYS = ("instance_type", "basis")
BASES_FILE = "catalog/price_kinds.csv"
# How often the Spot Instance Advisor saw instances taken back; by the index it gives.
INTERRUPTIONS = tuple(
    f"{share} interrupted within a month"
    for share in ("under 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "over 20 %")
)


class Currency(NamedTuple):
    """What a US dollar was worth, and when; `own` where the user says so."""

    per_usd: float
    as_of: date
    own: bool = False

    def __str__(self) -> str:
        return f"{self.per_usd:g} a US dollar" + (" as told" if self.own else f" of {self.as_of}")


class Basis(NamedTuple):
    """What a line of prices is: the market, how the prices are known, their worth and origin.

    `has_bands`: its cells tell how often instances are taken back, too.
    """

    market: Market
    kind: str
    origin: Origin
    currency: str
    rate: Currency
    has_bands: bool

    @property
    def source(self) -> str:
        """The origin, with the rate at which other currencies were taken."""
        told = f"; {self.currency} at {self.rate}" if self.currency != "USD" else ""
        return self.origin.text + told


class PriceRow(NamedTuple):
    """One line, cut into cells."""

    instance_type: str
    basis: Basis
    cells: list[str]


class Priced(NamedTuple):
    """The prices of a line, in US dollars an hour; `texts` are the cells from `first` on."""

    usd: list[float]
    texts: list[str]
    first: int

    @property
    def columns(self) -> list[int]:
        """Where the prices stand: told apart from them, because few are asked for."""
        return [at for at, text in enumerate(self.texts, self.first) if text]


def read_bases(
    files: Files, origins: Mapping[str, Origin], currencies: Mapping[str, Currency]
) -> dict[str, Basis]:
    """Every basis by its id."""
    return {
        row["basis"]: Basis(
            Market(row["market"]),
            row["kind"],
            origins[row["source"]],
            row["currency"],
            currencies[row["currency"]],
            has_bands=(row["market"], row["kind"]) == (Market.SPOT, ESTIMATED),
        )
        for row in files.table(BASES_FILE).records()
    }


class PriceTable:
    """Prices, scanned row by row; an empty cell is a missing price, never 0."""

    def __init__(self, table: Table, bases: Mapping[str, Basis]) -> None:
        if tuple(table.header[: len(KEYS)]) != KEYS:
            raise DataError(f"{table.path} does not start with the columns {', '.join(KEYS)}")
        self._table = table
        self._bases = bases
        self._prices: dict[tuple[str, int], Price] = {}

    @property
    def regions(self) -> list[str]:
        """Regions with a column."""
        return self._table.header[len(KEYS) :]

    def one(self, name: str, region: str, market: Market) -> Price | None:
        """One price; None where it is not known."""
        column = self._table.column.get(region, 0)
        for line in self._lines.get(name, ()) if column >= len(KEYS) else ():
            row = self._row(line)
            if row.basis.market is market and row.cells[column]:
                return self.price(row, column)
        return None

    def scan(
        self, names: Collection[str] | None, region: str | None, market: Market | None
    ) -> Iterator[tuple[PriceRow, Priced]]:
        """Lines of the named types (None: all) on one market or all, with what stands in the
        column of a region, or in all of them.
        """
        first, end = len(KEYS), len(self._table.header)
        if region is not None:
            first = self._table.column[region]
            end = first + 1
        wanted = {key for key, one in self._bases.items() if market in (None, one.market)}
        for line in self._of(names):
            # Cutting a line in full is what costs: only those that are asked for.
            comma = line.index(",")
            name = line[:comma]
            if names is not None and name not in names:
                continue
            basis = line[comma + 1 : line.index(",", comma + 1)]
            if basis not in wanted:
                continue
            row = PriceRow(name, self._bases[basis], line.split(","))
            priced = self._usd(row, first, end)
            if priced.usd:
                yield row, priced

    def region_at(self, column: int) -> str:
        """The region a column is of."""
        return self._table.header[column]

    def price(self, row: PriceRow, column: int) -> Price:
        """What stands in a cell, with its date and source; equal ones are one record."""
        key = (row.cells[column], id(row.basis))
        if key not in self._prices:
            self._prices[key] = self._built(row, column)
        return self._prices[key]

    def _of(self, names: Collection[str] | None) -> Sequence[str]:
        """Lines worth a look; where one type is asked for, often many follow one by one."""
        if names is None or len(names) != 1:
            return self._table.lines
        return self._lines.get(next(iter(names)), ())

    @cached_property
    def _lines(self) -> dict[str, list[str]]:
        lines: dict[str, list[str]] = {}
        for line in self._table.lines:
            lines.setdefault(line[: line.index(",")], []).append(line)
        return lines

    def _row(self, line: str) -> PriceRow:
        cells = line.split(",")
        return PriceRow(cells[0], self._bases[cells[1]], cells)

    def _usd(self, row: PriceRow, first: int, end: int) -> Priced:
        """The prices of a line; `DataError` for what is none."""
        texts = row.cells[first:end]
        known = [text for text in texts if text]
        if row.basis.has_bands:
            known = [text[: text.index("~")] for text in known]
        try:
            usd = list(map(float, known))
            if row.basis.currency != "USD":
                usd = [price / row.basis.rate.per_usd for price in usd]
            # A sum of what is not a number is not below anything.
            sound = not usd or (min(usd) > 0 and sum(usd) < math.inf)
        except ValueError:
            sound = False
        if not sound and not (row.basis.kind == FREE and set(known) <= {"0"}):
            raise DataError(f"{self._table.path}: what {row.instance_type} costs is no price")
        return Priced(usd, texts, first)

    def _built(self, row: PriceRow, column: int) -> Price:
        basis = row.basis
        (usd,) = self._usd(row, column, column + 1).usd
        band = row.cells[column].partition("~")[2]
        return Price(
            usd_per_hour=usd,
            kind=basis.kind,
            as_of=basis.origin.as_of,
            source=basis.source,
            terms=INTERRUPTIONS[int(band)] if band else basis.origin.terms,
        )


# A table of list prices; an import tells currency and kind beside.
LISTED_COLUMNS = (
    "region",
    "type",
    "usd_per_gib_month",
    "usd_per_iops_month",
    "usd_per_mib_s_month",
    "source",
)
_FLAT = ("usd_per_gib_month", "usd_per_mib_s_month")

# (region, disk type) -> a row of a disk price table in dollars.
Rows = dict[tuple[str, str], dict[str, str]]


class Told(NamedTuple):
    """Prices that the user told of disks whose rules are known, and where they are from."""

    rows: Rows
    origins: dict[str, Origin]


NOTHING_TOLD = Told({}, {})


def told_prices(
    files: Files, cloud: str, currencies: Mapping[str, Currency], earlier: Told
) -> Told:
    """The prices of an import in dollars, beside those of earlier ones."""
    rows, origins = dict(earlier.rows), dict(earlier.origins)
    known = read_origins(files)
    for row in files.table(f"catalog/{cloud}_disk_prices.csv").records():
        name, rate, origin = row["currency"], currencies[row["currency"]], known[row["source"]]
        at = "" if name == "USD" else f"; {name} at {rate}"
        key = f"told {len(origins) + 1}"
        origins[key] = Origin(f"{origin.text}{at}", origin.as_of)
        usd = {part: f"{float(row[part]) / rate.per_usd!r}" for part in _FLAT}
        (_, per_iops), *_ = _steps(row["usd_per_iops_month"])
        tiers = f"0:{per_iops / rate.per_usd!r}"
        rows[row["region"], row["type"]] = row | usd | {"usd_per_iops_month": tiers, "source": key}
    return Told(rows, origins)


class PriceParts(NamedTuple):
    """Where the tiers begin, and dollars a GiB, a MiB/s, and an IOPS of each tier."""

    tiers: tuple[float, ...]
    usd: tuple[float, ...]


def price_parts(row: Mapping[str, str]) -> PriceParts:
    """A row of a disk price table in numbers."""
    steps = _steps(row["usd_per_iops_month"])
    apart = float(row["usd_per_gib_month"]), float(row["usd_per_mib_s_month"])
    return PriceParts(tuple(above for above, _ in steps), (*apart, *(usd for _, usd in steps)))


def at_most(one: PriceParts, other: PriceParts) -> bool:
    """Whether no disk costs more by the one price than by the other."""
    return one.tiers == other.tiers and all(a <= b for a, b in zip(one.usd, other.usd, strict=True))


def usd_per_month(parts: PriceParts, gib: float, iops: float, mib_per_second: float) -> float:
    """A disk of a size, with so many IOPS and MiB/s beyond what the size includes."""
    per_gib, per_mib_per_second, *per_iops = parts.usd
    usd = gib * per_gib + mib_per_second * per_mib_per_second
    for above, end, each in zip(parts.tiers, (*parts.tiers[1:], math.inf), per_iops, strict=True):
        if iops > above:
            usd += (min(iops, end) - above) * each
    return usd


def _steps(tiers: str) -> list[tuple[float, float]]:
    """'0:0.065|32000:0.0455' -> where each tier begins, and its price of an IOPS."""
    pairs = (tier.split(":") for tier in tiers.split("|"))
    return [(float(above), float(usd)) for above, usd in pairs]
