"""Disks that can be ordered, what they cost, and the orders that are worth a prediction.

People write an order as gp3:158GiB:6000iops:250MiB/s, or less of it from the right. A disk inside the host is
part of the instance's price, and empty after a stop.

For the search there is a coarse ladder of rates for each type. Rate is bought with provisioning (gp3, io2) or
with size (all others). The steps only have to show which types of instance can answer at all:
`advisor.engine.disks` then looks for the cheapest order between them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.assumed import LOCAL_READ_IOPS, factors
from advisor.catalog.bundle import Files
from advisor.catalog.disk_rules import DiskRule
from advisor.catalog.instances import Origin, read_origins
from advisor.catalog.prices import Currency
from advisor.domain import Disk, DiskChoice, DiskRate, InstanceType
from advisor.domain.money import LOCAL_DISK
from advisor.errors import UsageError, unknown_name
from advisor.quantities import parse_memory_mib, parse_positive, parse_rate_mib_per_second

LOCAL = LOCAL_DISK
# Disks that GCP sells, and of which too little is known.
_WITHOUT_FACTS = ("hyperdisk", "pd-extreme")
# Space beside the data set, for checkpoints, shuffled copies and the file system itself.
HEADROOM = 1.2
# Local disks are known by their random 4 KiB reads alone; IOPS x 4 KiB is a floor of what larger reads reach.
_IO_KIB = 4
# A flash drive's own; the catalogue has none of it.
_LATENCY_SECONDS = 1e-4


def local_disk(instance: InstanceType, size_gib: float) -> Disk:
    """All local disks of the instance, striped; their price is part of the instance's."""
    has = instance.instance_store_gib
    if has == 0:
        raise UsageError(f"{instance.name} has no local disk; use a network disk such as gp3")
    iops = instance.instance_store_read_iops
    if iops is None:
        raise UsageError(
            f"how fast {instance.name} reads its local disk is not known; use a network disk such as gp3"
        )
    if not 0 < size_gib <= has:
        raise UsageError(f"{instance.name} has {has:.0f}GiB of local disk, not {size_gib:g}GiB")
    rate = DiskRate(
        type=LOCAL,
        read_mib_per_second=iops * _IO_KIB / 1024,
        read_iops=iops,
        read_latency_seconds=_LATENCY_SECONDS,
    )
    assumed = tuple(f for f in instance.assumed if f.name.startswith(LOCAL_READ_IOPS))
    if assumed:
        low, high = factors(assumed)
        rate = replace(rate, low=low, high=high)
    return Disk(
        rate=rate, choice=DiskChoice(type=LOCAL), size_gib=has, binding_limit="volume", assumed=assumed
    )


def local_if_it_fits(instance: InstanceType, dataset_gib: float) -> Disk | None:
    """The local disk, where it is large enough and its rate is known."""
    has, needed = instance.instance_store_gib, dataset_gib * HEADROOM
    if instance.instance_store_read_iops is None or not 0 < needed <= has:
        return None
    return local_disk(instance, needed)


def parse_choice(text: str, rules: Mapping[str, DiskRule]) -> DiskChoice:
    """An order of one of the types, or of the local disk; `UsageError` names the limit it breaks.

    Sizes and provisioning are sold in whole GiB, IOPS and MiB/s."""
    named, *extras = text.strip().split(":")
    sizes = [part for part in extras if not (part.lower().endswith("iops") or "/" in part)]
    iops = [part for part in extras if part.lower().endswith("iops")]
    rates = [part for part in extras if "/" in part]
    if max(len(sizes), len(iops), len(rates)) > 1:
        raise UsageError(f"'{text}' is no disk; write it like gp3:158GiB:6000iops:250MiB/s")
    disk_type = named.strip().lower()
    if disk_type not in (*rules, LOCAL):
        raise unknown_disk(named.strip(), (*rules, LOCAL))
    size_gib = parse_memory_mib(sizes[0]) / 1024 if sizes else None
    choice = DiskChoice(
        type=disk_type,
        size_gib=size_gib,
        iops=parse_positive(iops[0][:-4], "IOPS") if iops else None,
        mib_per_second=parse_rate_mib_per_second(rates[0]) if rates else None,
    )
    if disk_type != LOCAL:
        _require_sold(choice, rules[disk_type])
    elif choice.iops or choice.mib_per_second:
        raise UsageError("a local disk has the rate that it has: nothing of it can be provisioned")
    return choice


def unknown_disk(name: str, known: Iterable[str]) -> UsageError:
    """The error for a type that is not among the known ones, though its cloud may sell it."""
    if name.lower().startswith(_WITHOUT_FACTS):
        return UsageError(
            "rates and prices of {name} are not known here",
            name=name,
            field="disk",
            hint="name one of GCP's Persistent Disks: pd-standard, pd-balanced, pd-ssd",
        )
    return unknown_name("disk type", name, known, field="disk")


def _require_sold(choice: DiskChoice, rule: DiskRule) -> None:
    """Refuse what the type cannot have, as far as it can be told without a size."""
    size = choice.size_gib
    if size is not None:
        rule.require_size(size)
    rule.rate(rule.max_gib if size is None else size, choice.iops, choice.mib_per_second)
    whole = ((size, "GiB"), (choice.iops, " IOPS"), (choice.mib_per_second, "MiB/s"))
    for amount, unit in whole:
        if amount is not None and amount != int(amount):
            raise UsageError(
                f"{rule.type} disks are sold by the whole{unit if unit[0] == ' ' else f' {unit}'}: "
                f"{int(amount)} or {int(amount) + 1}, not {amount:g}"
            )


# (IOPS, MiB/s) of gp3; None: what the size includes. Files that lie in no cache take IOPS before they take
# bandwidth: a photograph is read in several operations.
_GP3_STEPS: tuple[tuple[float | None, float | None], ...] = (
    (None, None),
    (8000, 250),
    (16000, 500),
    (40000, 1000),
    (80000, 2000),
)
# gp3 gives every IOPS and MiB/s that it has for less than gp2, io1 and io2 do: io2 begins where it ends.
# 16,000 IOPS of 256 KiB are all the MiB/s that io2 has.
_IO2_STEPS: tuple[tuple[float | None, float | None], ...] = ((16000, None), (256000, None))
# Azure sells MB/s of 10**6 bytes: 2,000 of them are 1,907 MiB/s.
_PREMIUM_V2_STEPS: tuple[tuple[float | None, float | None], ...] = (
    (None, None),
    (8000, 250),
    (16000, 500),
    (40000, 1000),
    (80000, 1907),
)
# Ultra begins where Premium SSD v2 ends, which gives all that it has for a tenth.
_ULTRA_STEPS: tuple[tuple[float | None, float | None], ...] = ((160000, 3800), (400000, 9536))
_STEPS = {
    "gp2": (),
    "gp3": _GP3_STEPS,
    "io1": (),
    "io2": _IO2_STEPS,
    "premium-ssd": (),
    "premium-ssd-v2": _PREMIUM_V2_STEPS,
    "ultra": _ULTRA_STEPS,
}
# Where only some types may be had, each has to reach as far as it can.
_IO_STEPS = tuple((iops, None) for iops in (3000, 8000, 16000, 32000, 64000, 128000, 256000))
_WIDE_STEPS = {
    "gp3": _GP3_STEPS,
    "io1": _IO_STEPS,
    "io2": _IO_STEPS,
    "premium-ssd-v2": _PREMIUM_V2_STEPS,
    "ultra": ((3000, 125), (16000, 500), (80000, 1907), *_ULTRA_STEPS),
}
# IOPS and MiB/s that an instance has to pass on, more than which only such a type gives.
_WORTH_BEYOND = {"io2": (80000.0, 2000.0), "ultra": (80000.0, 1907.0)}


def volumes(rule: DiskRule, smallest_gib: float, *, wide: bool = False) -> Iterator[DiskChoice]:
    """A ladder of orders of one type from the smallest size that holds the data, slowest first.

    Types whose rate grows with their size double it until it no longer does. `wide`: other types may not be
    had, so that what they would give for less counts too."""
    if smallest_gib > rule.max_gib:
        return
    steps = (_WIDE_STEPS if wide else _STEPS).get(rule.type)
    if steps is not None:
        for iops, mib_per_second in steps:
            size = rule.size_for(smallest_gib, iops)
            if size <= rule.max_gib and (iops or 0.0) <= (rule.provision_iops_max or 0.0):
                yield DiskChoice(type=rule.type, size_gib=size, iops=iops, mib_per_second=mib_per_second)
        return
    size, reached, most = rule.size_for(smallest_gib), None, rule.sustained(rule.max_gib)
    while reached != most:
        now = rule.sustained(size)
        if now != reached:  # the smallest sizes of gp2 are all as fast
            yield DiskChoice(type=rule.type, size_gib=size)
        size, reached = rule.size_for(min(2 * size, rule.max_gib)), now


def cut_to(
    instance: InstanceType, choice: DiskChoice, rule: DiskRule, *, wide: bool = False
) -> DiskChoice | None:
    """The order without what the instance does not pass on; None where it is not worth a look."""
    assert choice.size_gib is not None
    iops, mib_per_second = choice.iops, choice.mib_per_second
    if iops is not None:
        limit, passed_on = instance.ebs_baseline_iops, instance.ebs_baseline_mib_per_second or 0.0
        beyond = None if wide else _WORTH_BEYOND.get(rule.type)
        if beyond and (limit or 0.0) <= beyond[0] and passed_on <= beyond[1]:
            return None
        iops = min(iops, max(limit or iops, rule.included_iops(choice.size_gib) or 0.0))
    if mib_per_second is not None:
        limit = instance.ebs_baseline_mib_per_second or mib_per_second
        mib_per_second = min(mib_per_second, max(math.ceil(limit), rule.provision_mib_s_min or 0.0))
    if (iops, mib_per_second) == (choice.iops, choice.mib_per_second):
        return choice
    return DiskChoice(type=choice.type, size_gib=choice.size_gib, iops=iops, mib_per_second=mib_per_second)


def undominated(disks: Iterable[Disk]) -> list[Disk]:
    """Cheapest first, without those that a cheaper one equals in rate, IOPS and latency.

    Of a type whose size buys its rate the first such step stays, where a smaller one did: a size between the
    two may be cheaper than what equals the step."""
    kept: list[Disk] = []
    may_end: set[str] = set()
    for disk in sorted(disks, key=lambda offered: (offered.usd_per_hour, offered.rate.type)):
        equalled = any(_at_least(other.rate, disk.rate) for other in kept)
        if not equalled or (_grows(disk) and disk.rate.type in may_end):
            kept.append(disk)
        if equalled:
            may_end.discard(disk.rate.type)
        elif _grows(disk):
            may_end.add(disk.rate.type)
    return kept


def _grows(disk: Disk) -> bool:
    return disk.choice.iops is None and disk.choice.mib_per_second is None


def without_slow_steps(disks: Iterable[Disk], rules: Mapping[str, DiskRule]) -> list[Disk]:
    """The orders with only the fastest of each type of hard disk: the search shrinks it, and few want it."""
    kept = list(disks)
    fastest = {disk.rate.type: disk for disk in kept}
    return [d for d in kept if rules[d.rate.type].media != "hdd" or d is fastest[d.rate.type]]


def _at_least(other: DiskRate, rate: DiskRate) -> bool:
    return (
        (other.read_mib_per_second or 0) >= (rate.read_mib_per_second or 0)
        and (other.read_iops or 0) >= (rate.read_iops or 0)
        and (other.read_latency_seconds or 0) <= (rate.read_latency_seconds or 0)
    )


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
    """A disk type's price: the amounts at which its tiers begin; the dollars of a GiB, a MiB/s and an IOPS of
    each tier; and the dollars of each of `sizes` (GiB) where the type is sold in no others."""

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
    """'0:0.065|32000:0.0455' -> where each tier begins and what an IOPS costs; cached by text."""
    pairs = (tier.split(":") for tier in tiers.split("|") if tier)
    return tuple((float(above), float(usd)) for above, usd in pairs)


class RegionsByPrice:
    """Regions of a cloud as rows: the price of each part of a disk (inf: not sold), and whether listed."""

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
        """The other regions where no disk costs less than in `region`, nor is one sold that it lacks; an
        estimated price never counts as less than a listed one."""
        own = self._row.get(region, -1)
        beaten = (self._usd[own] <= self._usd) & (self._listed[own] | ~self._listed)
        whole = beaten.all(axis=1).tolist()
        return [other for other in others if whole[self._row.get(other, -1)]]
