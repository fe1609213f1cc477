"""Prices of instances (a row a type and market, a column a region), and the parts of a disk's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.catalog.files import Files, Table
from advisor.catalog.instances import Origin, read_origins
from advisor.domain import FREE, Market, Price
from advisor.errors import DataError
from advisor.records import dataclass

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


@dataclass(frozen=True, slots=True)
class Basis:
    """What a row of prices is: the market, how the prices are known, their worth and origin."""

    market: Market
    kind: str
    origin: Origin
    currency: str
    rate: Currency

    @property
    def source(self) -> str:
        """The origin, with the rate at which other currencies were taken."""
        told = f"; {self.currency} at {self.rate}" if self.currency != "USD" else ""
        return self.origin.text + told


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
        )
        for row in files.table(BASES_FILE).records()
    }


def array_path(path: str) -> str:
    """Where the array of a table of prices stands."""
    return path.removesuffix(".csv") + ".npy"


def price_rows(table: Table) -> NDArray[np.void]:
    """A table as an array of its rows: names in ASCII, one `price` (nan: none) and one `band` (an
    index of `INTERRUPTIONS`, -1: none) a region, in the row's own currency."""
    if tuple(table.header[: len(KEYS)]) != KEYS:
        raise DataError(f"{table.path} does not start with the columns {', '.join(KEYS)}")
    regions = len(table.header) - len(KEYS)
    rows = [(name, basis, *_numbers(table.path, name, cells)) for name, basis, *cells in table]
    kinds = [
        ("instance_type", f"S{max([1, *(len(row[0]) for row in rows)])}"),
        ("basis", f"S{max([1, *(len(row[1]) for row in rows)])}"),
        ("price", "<f8", (regions,)),
        ("band", "i1", (regions,)),
    ]
    return np.array(rows, dtype=kinds)


def _numbers(path: str, name: str, cells: Sequence[str]) -> tuple[list[float], list[int]]:
    """The prices of a row, and its bands."""
    prices, bands = [math.nan] * len(cells), [-1] * len(cells)
    for at, cell in enumerate(cells):
        if cell:
            usd, _, band = cell.partition("~")
            try:
                prices[at], bands[at] = float(usd), int(band or -1)
            except ValueError:
                prices[at] = math.inf
            if not 0 <= prices[at] < math.inf:
                raise DataError(f"{path}: what {name} costs is no price")
    return prices, bands


class PriceTable:
    """Prices, a row a type and basis, a column a region; nan is a missing price, never 0."""

    def __init__(
        self,
        path: str,
        rows: NDArray[np.void],
        regions: Sequence[str],
        bases: Mapping[str, Basis],
    ) -> None:
        self.regions = regions
        self.types = [name.decode() for name in rows["instance_type"].tolist()]
        self.bases = [bases[key.decode()] for key in rows["basis"].tolist()]
        self._bands = rows["band"].copy()  # a part would keep the whole
        # A dollar is one dollar: dividing by it changes no bit.
        per_usd = [basis.rate.per_usd if basis.currency != "USD" else 1.0 for basis in self.bases]
        self._usd = rows["price"] / np.array(per_usd)[:, None]
        self._prices: dict[tuple[float, int, int], Price] = {}
        for at in np.flatnonzero((self._usd == 0).any(axis=1)).tolist():
            if self.bases[at].kind != FREE:
                raise DataError(f"{path}: what {self.types[at]} costs is no price")

    def cells(
        self, names: Collection[str] | None, region: str | None, market: Market | None
    ) -> Iterator[tuple[int, int, float]]:
        """Row, column and USD per hour of every price of the named types (None: all) on one market
        or all, in a region or in all."""
        rows, columns = self._rows(names, market), self._columns(region)
        usd = self._usd[rows][:, columns]
        at, column = np.nonzero(~np.isnan(usd))
        return zip(rows[at].tolist(), columns[column].tolist(), usd[at, column].tolist(),
                   strict=True)  # fmt: skip

    def lowest(
        self, names: Collection[str], region: str | None, market: Market | None
    ) -> Iterator[tuple[str, float]]:
        """Of each row of `cells`: the type, and its lowest price."""
        rows = self._rows(names, market)
        lowest = np.fmin.reduce(self._usd[rows][:, self._columns(region)], axis=1)
        for row, usd in zip(rows.tolist(), lowest.tolist(), strict=True):
            if not math.isnan(usd):
                yield self.types[row], usd

    def price(self, row: int, column: int) -> Price:
        """What stands in a cell, with its date and source; equal ones are one record."""
        basis = self.bases[row]
        usd, band = float(self._usd[row, column]), int(self._bands[row, column])
        key = (usd, band, id(basis))
        if key not in self._prices:
            self._prices[key] = Price(
                usd_per_hour=usd,
                kind=basis.kind,
                as_of=basis.origin.as_of,
                source=basis.source,
                terms=INTERRUPTIONS[band] if band >= 0 else basis.origin.terms,
            )
        return self._prices[key]

    def _rows(self, names: Collection[str] | None, market: Market | None) -> NDArray[np.intp]:
        rows = range(len(self.types)) if names is None else self._rows_of(names)
        kept = [at for at in rows if market in (None, self.bases[at].market)]
        return np.array(kept, dtype=np.intp)

    def _rows_of(self, names: Collection[str]) -> list[int]:
        """In the table's order; one type is often asked for after another."""
        return sorted(at for name in set(names) for at in self._by_type.get(name, ()))

    @cached_property
    def _by_type(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for at, name in enumerate(self.types):
            rows.setdefault(name, []).append(at)
        return rows

    def _columns(self, region: str | None) -> NDArray[np.intp]:
        if region is None:
            return np.arange(len(self.regions))
        return np.array([self.regions.index(region)] if region in self.regions else [], np.intp)


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


@dataclass(frozen=True, slots=True)
class Told:
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


@dataclass(frozen=True, slots=True)
class PriceParts:
    """Where the tiers begin, and dollars a GiB, a MiB/s, an IOPS of each tier, and each of the
    `sizes` (GiB) where the type is sold in no others."""

    tiers: tuple[float, ...]
    usd: tuple[float, ...]
    sizes: tuple[float, ...] = ()


def price_parts(row: Mapping[str, str]) -> PriceParts:
    """A row of a disk price table in numbers."""
    steps = _steps(row["usd_per_iops_month"])
    apart = float(row["usd_per_gib_month"]), float(row["usd_per_mib_s_month"])
    sold = _steps(row.get("usd_per_size_month") or "")
    usd = (*apart, *(usd for _, usd in steps), *(usd for _, usd in sold))
    return PriceParts(tuple(above for above, _ in steps), usd, tuple(gib for gib, _ in sold))


def at_most(one: PriceParts, other: PriceParts) -> bool:
    """Whether no disk costs more by the one price than by the other."""
    alike = (one.tiers, one.sizes) == (other.tiers, other.sizes)
    return alike and all(a <= b for a, b in zip(one.usd, other.usd, strict=True))


def usd_per_month(parts: PriceParts, gib: float, iops: float, mib_per_second: float) -> float:
    """A disk of a size, with so many IOPS and MiB/s beyond what the size includes."""
    per_gib, per_mib_per_second, *apart = parts.usd
    per_iops, per_size = apart[: len(parts.tiers)], apart[len(parts.tiers) :]
    if parts.sizes:
        return next(usd for size, usd in zip(parts.sizes, per_size, strict=True) if size >= gib)
    usd = gib * per_gib + mib_per_second * per_mib_per_second
    for above, end, each in zip(parts.tiers, (*parts.tiers[1:], math.inf), per_iops, strict=True):
        if iops > above:
            usd += (min(iops, end) - above) * each
    return usd


def _steps(tiers: str) -> list[tuple[float, float]]:
    """'0:0.065|32000:0.0455' -> where each tier begins, and what an IOPS costs; sizes likewise."""
    pairs = (tier.split(":") for tier in tiers.split("|") if tier)
    return [(float(above), float(usd)) for above, usd in pairs]
