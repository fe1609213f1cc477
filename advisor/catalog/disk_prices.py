"""What a month of a disk costs: the parts of a price, and which price is never the higher one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple


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
