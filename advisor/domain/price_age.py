"""The range within which a price may have moved since its day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import sqrt
from typing import NamedTuple

from msgspec.structs import replace

from advisor.domain.money import ESTIMATED, FREE, LIST, MAX_AGE_DAYS, OBSERVED, Price, Spec

# Sources that keep for no longer list prices that move within weeks.
_FAST_DAYS = 30


class PriceSpread(NamedTuple):
    """Prices whose upper end on a day is at most so many times the price."""

    most: float
    day: date

    def holds(self, price: Price) -> bool:
        """Whether a price is so sure."""
        return aged(price, self.day).high <= self.most * (1 + 1e-9)


class _Moved(NamedTuple):
    """Between which factors 9 of 10 prices lay `days` later; those that `rise` go on rising, so
    that beyond that time the upper end grows with time itself."""

    days: float
    low: float
    high: float
    rise: bool = False


# 63 GPU prices of neo-clouds, 2026-05-24 and 2026-08-22 (54 % of them moved). From then to
# 2026-10-01 none of 52 fell, and three rose by 10 to 16 %.
_FAST_LISTS = _Moved(90, 0.96, 1.45, rise=True)
# 10,364 spot prices of AWS seen on 2024-09-28, against the savings that its Spot Instance Advisor
# told on 2025-06-28: an upper bound, since those savings are an average themselves.
_MARKETS = _Moved(273, 0.64, 2.71)
# 3,602 on-demand prices of AWS, 2022-02-06 and 2026-02-17: 99.8 % are equal. One in 100 of its GPUs
# costs a third less, and what did not move for AWS may have for others.
_SLOW_LISTS = _Moved(1472, 0.67, 1.0)


def is_old(price: Price, today: date) -> bool:
    """Whether it is older than its source keeps."""
    return (today - price.as_of).days > price.max_age_days


def is_listed(price: Price, today: date) -> bool:
    """Whether the seller lists it and it is not old: then it is what will be paid."""
    return price.kind == FREE or (price.kind == LIST and not is_old(price, today))


def all_listed(spec: Spec, today: date) -> bool:
    """Whether every price in a spec's total is listed and not old."""
    return all(is_listed(price, today) for price in spec.prices)


def counts(price: Price, kinds: Sequence[str], listed_on: date | None) -> bool:
    """Whether a price is of the kinds that are asked for (none: all; what is free always), and
    listed on a day, where one is given."""
    if kinds and price.kind not in (*kinds, FREE):
        return False
    return listed_on is None or is_listed(price, listed_on)


def aged(price: Price, today: date) -> Price:
    """An old price with the interval in which it lies today. Prices drift as they drifted before:
    the logarithm of the interval grows with the square root of time, as that of a random walk; the
    upper end of those that rise grows with time itself, once they are older than what was seen."""
    if price.kind == FREE or not is_old(price, today):
        return price
    moved = _moved(price)
    steps = sqrt((today - price.as_of).days / moved.days)
    up = max(steps, steps**2) if moved.rise else steps
    return replace(price, low=price.low * moved.low**steps, high=price.high * moved.high**up)


def aged_spec(spec: Spec, today: date) -> Spec:
    """A spec with the prices of its instance and disk `aged`."""
    if not any(is_old(price, today) for price in spec.prices):
        return spec
    disk = spec.disk
    if disk.price is not None:
        disk = replace(disk, price=aged(disk.price, today))
    offer = replace(spec.offer, price=aged(spec.offer.price, today))
    return replace(spec, offer=offer, disk=disk)


def _moved(price: Price) -> _Moved:
    if price.kind != OBSERVED and price.max_age_days <= _FAST_DAYS:
        return _FAST_LISTS
    if price.kind == LIST or (price.kind == ESTIMATED and price.max_age_days > MAX_AGE_DAYS):
        return _SLOW_LISTS
    return _MARKETS  # seen there, or estimated from what was seen there
