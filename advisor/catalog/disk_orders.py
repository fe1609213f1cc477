"""Disks that can be ordered, and the orders that are worth a prediction.

People write an order as gp3:158GiB:6000iops:250MiB/s, or less of it from the right. A disk inside
the host is part of the instance's price, and empty after a stop.

For the search there is a coarse ladder of rates for each type. Rate is bought with provisioning
(gp3, io2) or with size (all others). The steps only have to show which types of instance can answer
at all: `advisor.engine.disks` then looks for the cheapest order between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from advisor.catalog.assumed import LOCAL_READ_IOPS, factors
from advisor.catalog.disk_rules import DiskRule
from advisor.domain import Disk, DiskChoice, DiskRate, InstanceType
from advisor.errors import UsageError, unknown_name
from advisor.quantities import parse_memory_mib, parse_positive, parse_rate_mib_per_second

LOCAL = "instance_store"
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

    Sizes and provisioning are sold in whole GiB, IOPS and MiB/s.
    """
    named, *extras = text.strip().split(":")
    sizes = [part for part in extras if not (part.lower().endswith("iops") or "/" in part)]
    iops = [part for part in extras if part.lower().endswith("iops")]
    rates = [part for part in extras if "/" in part]
    if max(len(sizes), len(iops), len(rates)) > 1:
        raise UsageError(f"'{text}' is no disk; write it like gp3:158GiB:6000iops:250MiB/s")
    disk_type = _parse_type(named, rules)
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


def _parse_type(text: str, rules: Mapping[str, DiskRule]) -> str:
    name = text.strip().lower()
    if name not in (*rules, LOCAL):
        raise unknown_disk(text.strip(), (*rules, LOCAL))
    return name


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

    Types whose rate grows with their size double it until it no longer does. `wide`: other types
    may not be had, so that what they would give for less counts too.
    """
    if smallest_gib > rule.max_gib:
        return
    steps = (_WIDE_STEPS if wide else _STEPS).get(rule.type)
    if steps is not None:
        yield from _provisioned(rule, smallest_gib, steps)
        return
    size, reached, most = rule.size_for(smallest_gib), None, _speed(rule.rate(rule.max_gib))
    while reached != most:
        now = _speed(rule.rate(size))
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
        limit = instance.ebs_baseline_iops
        if not wide and not _passes_on_more(instance, _WORTH_BEYOND.get(rule.type)):
            return None
        iops = min(iops, max(limit or iops, rule.included_iops(choice.size_gib) or 0.0))
    if mib_per_second is not None:
        limit = instance.ebs_baseline_mib_per_second or mib_per_second
        mib_per_second = min(mib_per_second, max(math.ceil(limit), rule.provision_mib_s_min or 0.0))
    if (iops, mib_per_second) == (choice.iops, choice.mib_per_second):
        return choice
    return DiskChoice(type=choice.type, size_gib=choice.size_gib, iops=iops, mib_per_second=mib_per_second)


def _passes_on_more(instance: InstanceType, beyond: tuple[float, float] | None) -> bool:
    if beyond is None:
        return True
    iops, mib_per_second = beyond
    passed_on = instance.ebs_baseline_mib_per_second or 0.0
    return (instance.ebs_baseline_iops or 0.0) > iops or passed_on > mib_per_second


def undominated(disks: Iterable[Disk]) -> list[Disk]:
    """Cheapest first, without those that a cheaper one equals in rate, IOPS and latency.

    Of a type whose size buys its rate the first such step stays, where a smaller one did: a size
    between the two may be cheaper than what equals the step.
    """
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


def _provisioned(
    rule: DiskRule, smallest_gib: float, steps: Iterable[tuple[float | None, float | None]]
) -> Iterator[DiskChoice]:
    for iops, mib_per_second in steps:
        size = rule.size_for(smallest_gib, iops)
        if size <= rule.max_gib and (iops or 0.0) <= (rule.provision_iops_max or 0.0):
            yield DiskChoice(type=rule.type, size_gib=size, iops=iops, mib_per_second=mib_per_second)


def _speed(rate: DiskRate) -> tuple[float | None, float | None]:
    return rate.read_mib_per_second, rate.read_iops


def _at_least(other: DiskRate, rate: DiskRate) -> bool:
    return (
        (other.read_mib_per_second or 0) >= (rate.read_mib_per_second or 0)
        and (other.read_iops or 0) >= (rate.read_iops or 0)
        and (other.read_latency_seconds or 0) <= (rate.read_latency_seconds or 0)
    )
