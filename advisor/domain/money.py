"""Offers, priced disks and specs, and how far a price may have moved since its date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import erfc, inf, log, sqrt
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain.machines import AssumedFact, DiskRate, InstanceType, require_positive
from advisor.domain.words import Market


class NotOrderable(Struct, frozen=True, kw_only=True):
    """A dated statement with its source that a type cannot be ordered: anywhere, or only on one `market` or
    in one `region`. `status` is one of `catalog.instances.STATUSES`."""

    cloud: str
    status: str
    as_of: date | None = None
    source: str = ""
    market: str = ""
    region: str = ""

    def applies_to(self, region: str, market: str) -> bool:
        """Return whether the statement is about this region and market."""
        return self.market in ("", market) and self.region in ("", region)


# The disk type of a disk that comes with its instance.
LOCAL_DISK = "instance_store"
# A mean month, as clouds bill it.
HOURS_PER_MONTH = 730.0
_HOURS_PER_YEAR = 8760.0
# Where a price comes from. Only what is free costs 0: a missing price is a missing `Price`.
LIST, OBSERVED, ESTIMATED, FREE = PRICE_KINDS = ("list", "observed", "estimated", "free")
# Days until a price is old, where its source has no other number.
MAX_AGE_DAYS = 90


class Price(Struct, frozen=True, kw_only=True):
    """The price of one hour. A missing price is a missing `Price`, never 0. `kind` is one of `PRICE_KINDS`:
    published by the seller, seen on the spot market, estimated, or free of charge. `terms` are its
    conditions: how often spot instances are interrupted, the quota of a free service. In 9 of 10 cases the
    true price is `low` to `high` times this one; both are 1 if the seller lists it. It is old after
    `max_age_days`. `note` says what only the seller knows about it; no rise takes it above `ceiling` times
    this price."""

    usd_per_hour: float
    kind: str
    as_of: date
    source: str
    terms: str = ""
    low: float = 1.0
    high: float = 1.0
    max_age_days: int = MAX_AGE_DAYS
    note: str = ""
    ceiling: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in PRICE_KINDS:
            raise ValueError(f"'{self.kind}' is no way to know a price")
        if not 0 < self.low <= 1 <= self.high:
            raise ValueError(f"a price does not lie between {self.low} and {self.high} times it")
        if self.kind != FREE:
            require_positive(usd_per_hour=self.usd_per_hour)
        elif self.usd_per_hour != 0:
            raise ValueError(f"free, and costs {self.usd_per_hour}")

    @property
    def low_usd_per_hour(self) -> float:
        """The lower end of the 90 % interval."""
        return self.low * self.usd_per_hour

    @property
    def high_usd_per_hour(self) -> float:
        """The upper end of the 90 % interval."""
        return self.high * self.usd_per_hour


class Offer(Struct, frozen=True, kw_only=True):
    """An instance type in a region, on a market, at a price; `closed` says why it cannot be ordered."""

    instance: InstanceType
    region: str
    market: Market
    price: Price
    closed: NotOrderable | None = None


class DiskChoice(Struct, frozen=True, kw_only=True):
    """A disk order. None: the size that fits, or the rates that the size includes."""

    type: str
    size_gib: float | None = None
    iops: float | None = None
    mib_per_second: float | None = None

    def __post_init__(self) -> None:
        require_positive(size_gib=self.size_gib, iops=self.iops, mib_per_second=self.mib_per_second)

    def __str__(self) -> str:
        """The text that `--disk` takes: gp3:158GiB:6000iops:250MiB/s."""
        parts = [self.type]
        parts += [f"{self.size_gib:g}GiB"] if self.size_gib else []
        parts += [f"{self.iops:g}iops"] if self.iops else []
        parts += [f"{self.mib_per_second:g}MiB/s"] if self.mib_per_second else []
        return ":".join(parts)

    @classmethod
    def from_text(cls, text: str) -> DiskChoice:
        """The order in a text that `str` wrote; the catalogue reads what users write."""
        disk_type, *parts = text.split(":")
        amounts = {
            field: float(part.removesuffix(unit))
            for part in parts
            for field, unit in _UNITS.items()
            if part.endswith(unit)
        }
        return cls(type=disk_type, **amounts)


# In the order of a text's parts.
_UNITS = {"size_gib": "GiB", "iops": "iops", "mib_per_second": "MiB/s"}


class Burst(Struct, frozen=True, kw_only=True):
    """The burst rate of a disk, and how many seconds it lasts with full credits; answers never count on it.
    `causes` names whose burst it is: the volume's type, the instance's type, or both."""

    read_mib_per_second: float
    read_iops: float
    seconds: float
    causes: tuple[str, ...]


class Disk(Struct, frozen=True, kw_only=True):
    """A disk on a given instance, with its price except inside a prediction. `rate` is the effective one, the
    lower of the volume's and the instance's sustained limits; `binding_limit` says which (`volume` or
    `instance`). `choice` is the order for it; `burst` is what a short test would measure; `assumed` are the
    facts that nobody publishes."""

    rate: DiskRate
    choice: DiskChoice
    size_gib: float
    binding_limit: str
    price: Price | None = None
    burst: Burst | None = None
    assumed: tuple[AssumedFact, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        """USD per hour; 0 for a disk that the instance's price includes (local NVMe)."""
        return self.price.usd_per_hour if self.price else 0.0

    @property
    def known_usd_per_hour(self) -> float | None:
        """USD per hour; None if the disk's price is not known."""
        return None if self.price is None and not self.is_local else self.usd_per_hour

    @property
    def is_local(self) -> bool:
        """Return whether the disk comes with the instance, at no extra price."""
        return self.rate.type == LOCAL_DISK


# 9 of 10 values of a normal distribution are within so many standard deviations.
NINE_IN_TEN = 1.645


class Spec(Struct, frozen=True, kw_only=True):
    """What is recommended: an offer plus a disk, or `count` of both if one is not enough."""

    offer: Offer
    disk: Disk
    count: int = 1

    def __post_init__(self) -> None:
        require_positive(count=self.count)

    @property
    def usd_per_hour_each(self) -> float:
        """USD per hour of one instance and its disk."""
        return self.offer.price.usd_per_hour + self.disk.usd_per_hour

    @property
    def total_usd_per_hour(self) -> float:
        """USD per hour of all instances and disks: the price that is ranked, limited and divided."""
        return self.count * self.usd_per_hour_each

    @property
    def prices(self) -> tuple[Price, ...]:
        """The price of the instance, and of the disk if it has one."""
        return (self.offer.price, self.disk.price) if self.disk.price else (self.offer.price,)

    @property
    def low_usd_per_hour(self) -> float:
        """The total with every price at the lower end of its interval."""
        return self.count * sum(price.low_usd_per_hour for price in self.prices)

    @property
    def high_usd_per_hour(self) -> float:
        """The total with every price at the upper end of its interval."""
        return self.count * sum(price.high_usd_per_hour for price in self.prices)

    def chance_within(self, most_usd_per_hour: float) -> float:
        """The chance that the total is at most this: log-normal, with 9 of 10 values in the interval."""
        total, bound = self.total_usd_per_hour, self.high_usd_per_hour
        if most_usd_per_hour < total:
            bound = self.low_usd_per_hour
        if total == bound or not 0 < most_usd_per_hour < inf:
            return float(total <= most_usd_per_hour)
        distance = abs(log(bound / total)) / NINE_IN_TEN
        return 0.5 * erfc(log(total / most_usd_per_hour) / distance / sqrt(2))

    @property
    def name(self) -> str:
        """Count and type: 'g4dn.xlarge', or '3 x g4dn.xlarge'."""
        times = f"{self.count} x " if self.count > 1 else ""
        return f"{times}{self.offer.instance.name}"


# Sellers whose lists are old after at most so many days change their prices within weeks.
_FAST_DAYS = 30


class PriceSpread(NamedTuple):
    """A limit on how uncertain prices may be: the upper end on a day, over the price."""

    most: float
    day: date

    def allows(self, price: Price) -> bool:
        """Return whether the upper end of a price on that day is within the limit."""
        return aged(price, self.day).high <= self.most * (1 + 1e-9)


class _Drift(NamedTuple):
    """How far prices moved: 9 of 10 were `low` to `high` times as much `days` later. If they `rise`, they go
    on rising: beyond that time the upper end grows with time."""

    days: float
    low: float
    high: float
    rise: bool = False


# 63 GPU prices of neo-clouds, 2026-05-24 and 2026-08-22 (54 % of them moved). From then to
# 2026-10-01 none of 52 fell, and three rose by 10 to 16 %.
_FAST_LISTS = _Drift(90, 0.96, 1.45, rise=True)
# 10,364 spot prices of AWS seen on 2024-09-28, against the savings in its Spot Instance Advisor of
# 2025-06-28: an upper bound, since those savings are averages.
_MARKETS = _Drift(273, 0.64, 2.71)
# 3,602 on-demand prices of AWS, 2022-02-06 and 2026-02-17: 99.8 % are equal. One in 100 of its GPUs
# costs a third less, and what did not move for AWS may have for others.
_SLOW_LISTS = _Drift(1472, 0.67, 1.0)


def is_old(price: Price, today: date) -> bool:
    """Return whether a price is older than its source allows."""
    return (today - price.as_of).days > price.max_age_days


def is_listed(price: Price, today: date) -> bool:
    """Return whether the seller lists a price and it is not old, so that it is what will be paid."""
    return price.kind == FREE or (price.kind == LIST and not is_old(price, today))


def all_listed(spec: Spec, today: date) -> bool:
    """Return whether every price of a spec is listed and not old."""
    return all(is_listed(price, today) for price in spec.prices)


def is_wanted(price: Price, kinds: Sequence[str], listed_on: date | None) -> bool:
    """Return whether a price is of one of these kinds (empty: any) and, if a day is given, listed on it."""
    if kinds and price.kind not in (*kinds, FREE):
        return False
    return listed_on is None or is_listed(price, listed_on)


def aged(price: Price, today: date) -> Price:
    """An old price with its interval widened to today. Prices drift as they did before: like a random walk's,
    the logarithm of the interval grows with the square root of time. The upper end of rising prices grows
    with time itself beyond the observed period."""
    if price.kind == FREE or not is_old(price, today):
        return price
    moved = _drift_of(price)
    steps = sqrt((today - price.as_of).days / moved.days)
    up = max(steps, steps**2) if moved.rise else steps
    high = price.high * moved.high**up
    return replace(price, low=price.low * moved.low**steps, high=min(high, price.ceiling or high))


def aged_spec(spec: Spec, today: date) -> Spec:
    """A spec with the prices of its instance and disk `aged`."""
    if not any(is_old(price, today) for price in spec.prices):
        return spec
    disk = spec.disk
    if disk.price is not None:
        disk = replace(disk, price=aged(disk.price, today))
    offer = replace(spec.offer, price=aged(spec.offer.price, today))
    return replace(spec, offer=offer, disk=disk)


def _drift_of(price: Price) -> _Drift:
    if price.kind != OBSERVED and price.max_age_days <= _FAST_DAYS:
        return _FAST_LISTS
    if price.kind == LIST or (price.kind == ESTIMATED and price.max_age_days > MAX_AGE_DAYS):
        return _SLOW_LISTS
    return _MARKETS  # seen there, or estimated from what was seen there


def term_hours(market: Market) -> float:
    """Hours that are paid for in any case; 0 without a commitment."""
    years = 3 if "-3y" in market else 1 if "-1y" in market else 0
    return years * _HOURS_PER_YEAR
