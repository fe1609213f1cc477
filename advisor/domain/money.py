"""Things that money buys: offers, priced disks, specs."""

from __future__ import annotations

from datetime import date

from msgspec import Struct

from advisor.domain.machines import AssumedFact, DiskRate, InstanceType, require_positive
from advisor.domain.orderable import NotOrderable
from advisor.domain.words import Market

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
    what nobody can know of it without asking the seller.
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
    """One thing money buys: an instance type in a region, on a market, at a price; `closed` says
    why it cannot be ordered all the same."""

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

    `causes` names who lends it: the volume's type, the instance's type, or both.
    """

    read_mib_per_second: float
    read_iops: float
    seconds: float
    causes: tuple[str, ...]


class Disk(Struct, frozen=True, kw_only=True):
    """A priced disk on a given instance.

    `rate` is the effective one: the lower of the volume's and the instance's own sustained
    limit; `binding_limit` says which of them it is (`volume` or `instance`). `choice` is what
    has to be bought for it; `burst` is what a short test would see instead; `assumed` is what of
    all this nobody tells.
    """

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

    @property
    def name(self) -> str:
        """'g4dn.xlarge', or '3 x g4dn.xlarge'."""
        times = f"{self.count} x " if self.count > 1 else ""
        return f"{times}{self.offer.instance.name}"
