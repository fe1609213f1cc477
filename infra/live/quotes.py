"""What AWS said today."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date

from advisor.domain import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A price of the cloud; `zone` is the cheapest zone of a spot price."""

    instance_type: str
    region: str
    market: Market
    usd_per_hour: float
    as_of: date
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuote:
    """A price that is not believed, or that nobody has, and why."""

    instance_type: str
    why: str


def price_from(text: str) -> float | None:
    """A price above 0, or None: AWS's list has zeros, which are no prices."""
    try:
        usd = float(text)
    except ValueError:
        return None
    return usd if math.isfinite(usd) and usd > 0 else None
