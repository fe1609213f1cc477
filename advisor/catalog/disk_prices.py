"""Prices of disks: their parts, prices from the user, and the regions that are no dearer."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from advisor.catalog.bundle import Files
from advisor.catalog.instances import Origin, read_origins
from advisor.catalog.prices import Currency

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
        conversion = "" if name == "USD" else f"; {name} at {rate}"
        key = f"told {len(origins) + 1}"
        origins[key] = Origin(f"{origin.text}{conversion}", origin.as_of)
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


class RegionsByPrice:
    """Regions of a cloud as rows: what each part of a disk's price is (infinite: not sold there),
    and whether its seller lists it."""

    def __init__(
        self, prices: Mapping[str, Mapping[str, PriceParts]], listed: Collection[tuple[str, str]]
    ) -> None:
        # Prices whose tiers begin elsewhere cannot be compared: they are of two columns.
        columns_of: dict[tuple[str, tuple[float, ...]], slice] = {}
        width = 0
        for of_region in prices.values():
            for kind, parts in of_region.items():
                if (kind, parts.tiers) not in columns_of:
                    columns_of[kind, parts.tiers] = slice(width, width + len(parts.usd))
                    width += len(parts.usd)
        self._row = {region: row for row, region in enumerate(prices)}
        # The last row is of a region that sells none.
        self._usd = np.full((len(prices) + 1, width), np.inf)
        self._listed = np.zeros((len(prices) + 1, width), dtype=bool)
        for region, row in self._row.items():
            for kind, parts in prices[region].items():
                columns = columns_of[kind, parts.tiers]
                self._usd[row, columns] = parts.usd
                self._listed[row, columns] = (region, kind) in listed

    def no_dearer_than(self, region: str, others: Iterable[str]) -> list[str]:
        """Of the other regions those where every disk is sold in `region` too, for no more; no
        estimate beats a listed price."""
        own = self._row.get(region, -1)
        beaten = (self._usd[own] <= self._usd) & (self._listed[own] | ~self._listed)
        whole = beaten.all(axis=1).tolist()
        return [other for other in others if whole[self._row.get(other, -1)]]
