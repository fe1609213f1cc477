"""What a month of a disk costs: the parts of a price, and which price is never the higher one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from advisor.catalog.files import Files
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
