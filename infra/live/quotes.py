"""Price quotes of one cloud on one day."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from msgspec import Struct

from advisor.domain import Market

# Nothing that is sold by the hour costs more: a rack of 72 GB200 is below $1,000.
MOST_USD_PER_HOUR = 20_000.0


class Quote(Struct, frozen=True, kw_only=True):
    """A price of the cloud; `zone` is the cheapest zone of a spot price, which may be `estimated`
    and have `terms`."""

    instance_type: str
    region: str
    market: Market
    usd_per_hour: float
    as_of: date
    zone: str = ""
    estimated: bool = False
    terms: str = ""


class NoQuote(Struct, frozen=True, kw_only=True):
    """A price that is not believed, or that nobody has, and why; `unlisted`: the list was read
    whole, and does not have the type."""

    instance_type: str
    why: str
    unlisted: bool = False


def price_from(amount: object) -> float | None:
    """A price above 0 that an instance may have, or None: lists have zeros, which are no prices."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float, str)):
        return None
    try:
        usd = float(amount)
    except (ValueError, OverflowError):
        return None
    return usd if 0 < usd <= MOST_USD_PER_HOUR else None


def one_price(
    name: str, prices: Collection[float], where: tuple[str, Market], today: date
) -> Quote | NoQuote:
    """The quote in a region and on a market, where exactly one price remains: of two, one is the
    answer to another question."""
    region, market = where
    if not prices:
        why = f"the price list has no {market} price in {region}"
        return NoQuote(instance_type=name, why=why, unlisted=True)
    if len(prices) > 1:
        several = ", ".join(f"${price:g}" for price in sorted(prices))
        return NoQuote(instance_type=name, why=f"the price list has several prices: {several}")
    (usd,) = prices
    return Quote(instance_type=name, region=region, market=market, usd_per_hour=usd, as_of=today)
