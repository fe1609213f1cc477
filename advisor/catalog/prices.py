"""Prices of instances with what they rest on, and the parts of a disk's price."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.catalog.files import Files
from advisor.catalog.instances import Origin, read_origins
from advisor.catalog.stored_prices import StoredPrices
from advisor.domain import FREE, Market, Price
from advisor.errors import DataError

BASES_FILE = "catalog/price_kinds.csv"
# Says what a US dollar is worth in a currency.
RATE_VARIABLE = "ADVISOR_{}_PER_USD"
# Whether a price is one of those that are asked for.
Counts = Callable[[Price], bool]


class Currency(NamedTuple):
    """What a US dollar was worth, and when; `own` where the user says so. Without a rate (nan) no
    price in the currency is known."""

    per_usd: float
    as_of: date
    own: bool = False

    def __str__(self) -> str:
        return f"{self.per_usd:g} a US dollar" + (" as told" if self.own else f" of {self.as_of}")


class Basis(Struct, frozen=True):
    """How prices are known, their currency and origin.

    The true price lies with 90 % between `low` and `high` times the one that is stored.
    """

    kind: str
    origin: Origin
    currency: str
    rate: Currency
    terms: str = ""
    low: float = 1.0
    high: float = 1.0

    @property
    def source(self) -> str:
        """The origin, with the rate at which other currencies were taken."""
        converted = self.rate.per_usd != 1
        return self.origin.text + (f"; {self.currency} at {self.rate}" if converted else "")

    def price(self, usd_per_hour: float) -> Price:
        """A price on this basis."""
        return Price(
            usd_per_hour=usd_per_hour,
            kind=self.kind,
            as_of=self.origin.as_of,
            source=self.source,
            terms=self.terms,
            low=self.low,
            high=self.high,
            max_age_days=self.origin.max_age_days,
            note=self.origin.note,
        )


def read_bases(
    files: Files, origins: Mapping[str, Origin], currencies: Mapping[str, Currency]
) -> dict[str, Basis]:
    """Every basis by its id; an import tells no interval, and the terms with the origin."""
    return {
        row["basis"]: Basis(
            kind=row["kind"],
            origin=origins[row["source"]],
            currency=row["currency"],
            rate=currencies[row["currency"]],
            terms=row.get("terms") or origins[row["source"]].terms,
            low=float(row.get("low") or 1),
            high=float(row.get("high") or 1),
        )
        for row in files.table(BASES_FILE).records()
    }


class PriceTable:
    """Prices of one market, a row a type, a column a region; nan is a missing price, never 0."""

    def __init__(self, stored: StoredPrices, bases: Mapping[str, Basis]) -> None:
        self.market = Market(stored.market)
        self.types = stored.types
        self.regions = stored.regions
        self._stored = stored
        self._bases = [bases[key] for key in stored.bases]
        self._per_usd = np.array([one.rate.per_usd for one in self._bases])
        self._in_dollars = bool((self._per_usd == 1).all())
        self._prices: dict[tuple[float, int], Price] = {}
        if (stored.distinct == 0).any() and any(one.kind != FREE for one in self._bases):
            self._require_free_ones_free()

    def cells(
        self, names: Collection[str] | None, region: str | None, counts: Counts | None = None
    ) -> Iterator[tuple[int, int, float]]:
        """Row, column and USD per hour of every price of the named types (None: all), in a region
        or in all; of those that count."""
        rows, columns = self._rows(names), self._columns(region)
        usd = self._counted(rows, columns, counts)
        at, column = np.nonzero(~np.isnan(usd))
        return zip(rows[at].tolist(), columns[column].tolist(), usd[at, column].tolist(), strict=True)

    def lowest(
        self,
        names: Collection[str],
        region: str | None,
        counts: Counts | None = None,
        limit: float = math.inf,
    ) -> dict[str, float]:
        """Of each type of `cells`: its lowest price, where that is within the limit."""
        rows, columns = self._rows(names), self._columns(region)
        lowest = np.fmin.reduce(self._counted(rows, columns, counts), axis=1, initial=np.nan)
        within = lowest <= limit  # nan is not
        types = self.types
        return dict(zip((types[at] for at in rows[within].tolist()), lowest[within].tolist(), strict=True))

    def price(self, row: int, column: int) -> Price:
        """What stands in a cell, with its date and source; equal ones are one record."""
        at = int(self._stored.basis[row, column])
        (usd,) = self._usd(np.array([row]), np.array([column])).ravel().tolist()
        if (usd, at) not in self._prices:
            self._prices[usd, at] = self._bases[at].price(usd)
        return self._prices[usd, at]

    @property
    def unconverted(self) -> frozenset[str]:
        """Currencies of its prices of which no rate is known."""
        return frozenset(one.currency for one in self._bases if math.isnan(one.rate.per_usd))

    def _counted(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], counts: Counts | None
    ) -> NDArray[np.float64]:
        """Prices of some cells, nan where one does not count."""
        found = self._usd(rows, columns)
        if counts is None:
            return found
        kept = [counts(one.price(0.0 if one.kind == FREE else 1.0)) for one in self._bases]
        return np.where(np.array(kept)[self._stored.basis[rows[:, None], columns]], found, np.nan)

    def _usd(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        cells = rows[:, None], columns
        found: NDArray[np.float64] = self._stored.distinct[self._stored.position[cells]]
        return found if self._in_dollars else found / self._per_usd[self._stored.basis[cells]]

    def _rows(self, names: Collection[str] | None) -> NDArray[np.intp]:
        """In the table's order; one type is often asked for after another."""
        if names is None:
            return np.arange(len(self.types))
        row_of = self._row_of
        # `np.unique` would import numpy.ma, which takes 10 ms.
        return np.sort(np.array([*{row_of[name] for name in names if name in row_of}], np.intp))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.types)}

    def _columns(self, region: str | None) -> NDArray[np.intp]:
        if region is None:
            return np.arange(len(self.regions))
        return np.array([self.regions.index(region)] if region in self.regions else [], np.intp)

    def _require_free_ones_free(self) -> None:
        """`DataError` where something that is not free costs 0."""
        stored, free = self._stored, np.array([one.kind == FREE for one in self._bases])
        wrong = (stored.distinct[stored.position] == 0) & ~free[stored.basis]
        for row in np.flatnonzero(wrong.any(axis=1)).tolist():
            raise DataError(f"what {self.types[row]} costs is no price")


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


class DiskPrices(Struct, frozen=True):
    """Prices that the user told of disks whose rules are known, and where they are from."""

    rows: Rows
    origins: dict[str, Origin]


NO_DISK_PRICES = DiskPrices({}, {})


def disk_prices_with(
    files: Files, cloud: str, currencies: Mapping[str, Currency], earlier: DiskPrices
) -> DiskPrices:
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
    return DiskPrices(rows, origins)


class PriceParts(NamedTuple):
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


@lru_cache(maxsize=1024)
def _steps(tiers: str) -> tuple[tuple[float, float], ...]:
    """'0:0.065|32000:0.0455' -> where each tier begins, and what an IOPS costs; sizes likewise.
    Regions of one cloud share most of them."""
    pairs = (tier.split(":") for tier in tiers.split("|") if tier)
    return tuple((float(above), float(usd)) for above, usd in pairs)
