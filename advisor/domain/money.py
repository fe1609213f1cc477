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
    """A statement, with source and date, that a type cannot be ordered; on one `market` or in one
    `region` alone where they are named. `status` is one of `catalog.instances.STATUSES`."""

    cloud: str
    status: str
    as_of: date | None = None
    source: str = ""
    market: str = ""
    region: str = ""

    def holds(self, region: str, market: str) -> bool:
        """Whether it is true of a region and a market."""
        return self.market in ("", market) and self.region in ("", region)


# The type of a disk that is part of its instance.
LOCAL_DISK = "instance_store"
# A mean month, as clouds bill one.
HOURS_PER_MONTH = 730.0
# How a price is known. Only what is free costs 0: a missing price is a missing `Price`.
LIST, OBSERVED, ESTIMATED, FREE = PRICE_KINDS = ("list", "observed", "estimated", "free")
# How long a price may be taken for today's where its source says nothing else.
MAX_AGE_DAYS = 90


class Price(Struct, frozen=True, kw_only=True):
    """The price of one hour. A missing price is a missing `Price`, never 0.

    `kind` is one of `PRICE_KINDS`: published by the seller, seen on the spot market, estimated,
    or free of charge. `terms` says what comes with it: how often spot instances are taken back,
    the quota of a free service. The true price lies between `low` and `high` times this one in 9 of
    10 cases, both 1 where the seller lists it; the source keeps for `max_age_days`. `note` says
    what nobody can know of it without asking the seller; no rise takes it above `ceiling` times this one.
    """

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
    """A disk as it is ordered. None is left open: the size that fits, what the size includes."""

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
        """The choice that `str` wrote; what users write is read by the catalogue."""
        disk_type, *parts = text.split(":")
        amounts = {
            field: float(part.removesuffix(unit))
            for part in parts
            for field, unit in _UNITS.items()
            if part.endswith(unit)
        }
        return cls(type=disk_type, **amounts)


# In the order in which a text may end with them.
_UNITS = {"size_gib": "GiB", "iops": "iops", "mib_per_second": "MiB/s"}


class Burst(Struct, frozen=True, kw_only=True):
    """The burst rate of a disk, and its seconds once credits are full; never counted on.

    `causes` names who lends it: the volume's type, the instance's type, or both."""

    read_mib_per_second: float
    read_iops: float
    seconds: float
    causes: tuple[str, ...]


class Disk(Struct, frozen=True, kw_only=True):
    """A disk on a given instance, priced but in a prediction.

    `rate` is the effective one: the lower of the volume's and the instance's own sustained limit;
    `binding_limit` says which of them it is (`volume` or `instance`). `choice` is what has to be bought for
    it; `burst` is what a short test would see instead; `assumed` is what of all this nobody tells."""

    rate: DiskRate
    choice: DiskChoice
    size_gib: float
    binding_limit: str
    price: Price | None = None
    burst: Burst | None = None
    assumed: tuple[AssumedFact, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        """0 for a disk whose price is part of the instance's (local NVMe)."""
        return self.price.usd_per_hour if self.price else 0.0

    @property
    def known_usd_per_hour(self) -> float | None:
        """Dollars an hour; None where no price of the disk is known."""
        return None if self.price is None and not self.is_local else self.usd_per_hour

    @property
    def is_local(self) -> bool:
        """Whether the disk belongs to the instance, and costs nothing by itself."""
        return self.rate.type == LOCAL_DISK


# Standard deviations between which 9 of 10 of a normal distribution lie.
_NINE_IN_TEN = 1.645


class Spec(Struct, frozen=True, kw_only=True):
    """An offer plus a disk: what is recommended; `count` of both where one is not enough."""

    offer: Offer
    disk: Disk
    count: int = 1

    def __post_init__(self) -> None:
        require_positive(count=self.count)

    @property
    def usd_per_hour_each(self) -> float:
        """One instance + its disk."""
        return self.offer.price.usd_per_hour + self.disk.usd_per_hour

    @property
    def total_usd_per_hour(self) -> float:
        """Instances + disks: what is ranked, limited and divided."""
        return self.count * self.usd_per_hour_each

    @property
    def prices(self) -> tuple[Price, ...]:
        """The instance's price, and the disk's where it has its own."""
        return (self.offer.price, self.disk.price) if self.disk.price else (self.offer.price,)

    @property
    def low_usd_per_hour(self) -> float:
        """The least that the total is, where every price is at the lower end of its interval."""
        return self.count * sum(price.low_usd_per_hour for price in self.prices)

    @property
    def high_usd_per_hour(self) -> float:
        """The most that the total is."""
        return self.count * sum(price.high_usd_per_hour for price in self.prices)

    def chance_within(self, most_usd_per_hour: float) -> float:
        """The chance that the total is no more: its logarithm is normal, and 9 of 10 lie in the interval."""
        total, bound = self.total_usd_per_hour, self.high_usd_per_hour
        if most_usd_per_hour < total:
            bound = self.low_usd_per_hour
        if total == bound or not 0 < most_usd_per_hour < inf:
            return float(total <= most_usd_per_hour)
        distance = abs(log(bound / total)) / _NINE_IN_TEN
        return 0.5 * erfc(log(total / most_usd_per_hour) / distance / sqrt(2))

    @property
    def name(self) -> str:
        """'g4dn.xlarge', or '3 x g4dn.xlarge'."""
        times = f"{self.count} x " if self.count > 1 else ""
        return f"{times}{self.offer.instance.name}"


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


def is_wanted(price: Price, kinds: Sequence[str], listed_on: date | None) -> bool:
    """Whether a price is of one of these kinds (empty: any) and, if a day is given, listed on it."""
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


def _moved(price: Price) -> _Moved:
    if price.kind != OBSERVED and price.max_age_days <= _FAST_DAYS:
        return _FAST_LISTS
    if price.kind == LIST or (price.kind == ESTIMATED and price.max_age_days > MAX_AGE_DAYS):
        return _SLOW_LISTS
    return _MARKETS  # seen there, or estimated from what was seen there
