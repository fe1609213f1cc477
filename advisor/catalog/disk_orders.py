"""Orders of disks: how they are written, what they cost, and which are worth a prediction.

People write an order as gp3:158GiB:6000iops:250MiB/s, and may leave parts out from the right. A disk inside
the host is part of the instance's price, and empty after a stop.

The search has a coarse ladder of rates for each type. Rate is bought with provisioning (gp3, io2) or with
size (all others). The steps only have to show which types of instance can answer at all:
`advisor.engine.disks` then looks for the cheapest order between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from advisor.catalog.assumed import LOCAL_READ_IOPS, uncertainty_factors
from advisor.catalog.bundle import Files
from advisor.catalog.disk_rules import DiskRule
from advisor.catalog.instances import Origin, read_origins
from advisor.catalog.prices import Currency
from advisor.domain import Disk, DiskChoice, DiskRate, InstanceType
from advisor.domain.money import LOCAL_DISK
from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.quantities import parse_memory_mib, parse_positive, parse_rate_mib_per_second

LOCAL = LOCAL_DISK
# Disks of GCP whose rates and prices are not known here.
_WITHOUT_FACTS = ("hyperdisk", "pd-extreme")
# Space on top of the data set, for checkpoints, shuffled copies and the file system.
HEADROOM = 1.2
# Sellers publish only random 4 KiB reads of local disks; larger reads reach at least IOPS x 4 KiB.
_IO_KIB = 4
# Typical of a flash drive; the catalogue has no figure.
_LATENCY_SECONDS = 1e-4


def local_disk(instance: InstanceType, size_gib: float) -> Disk:
    """All local disks of the instance, striped; its price includes them. `UsageError` without any."""
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
        low, high = uncertainty_factors(assumed)
        rate = replace(rate, low=low, high=high)
    return Disk(
        rate=rate, choice=DiskChoice(type=LOCAL), size_gib=has, binding_limit="volume", assumed=assumed
    )


def parse_choice(text: str, rules: Mapping[str, DiskRule]) -> DiskChoice:
    """The order that a text names; `UsageError` says which limit of the type it breaks.

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
    """The error for an unknown disk type; for some of GCP's it says that their rates are not known."""
    if name.lower().startswith(_WITHOUT_FACTS):
        hint = Message("name one of GCP's Persistent Disks: pd-standard, pd-balanced, pd-ssd")
        return UsageError("rates and prices of {name} are not known here", name=name, field="disk", hint=hint)
    return unknown_name("disk type", name, known, field="disk")


def _require_sold(choice: DiskChoice, rule: DiskRule) -> None:
    """Refuse an order that the type is not sold in, as far as that is known without a size."""
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


# (IOPS, MiB/s) of the steps; None: what the size includes.
_Steps = tuple[tuple[float | None, float | None], ...]
# Files outside the page cache run out of IOPS before bandwidth: a photograph takes several reads.
_GP3_STEPS: _Steps = ((None, None), (8000, 250), (16000, 500), (40000, 1000), (80000, 2000))
# Azure sells MB/s of 10**6 bytes: 2,000 of them are 1,907 MiB/s.
_PREMIUM_V2_STEPS: _Steps = (*_GP3_STEPS[:-1], (80000, 1907))
# Ultra's ladder begins where Premium SSD v2 ends, which costs a tenth for the same rate.
_ULTRA_STEPS: _Steps = ((160000, 3800), (400000, 9536))
_STEPS: Mapping[str, _Steps] = {
    "gp2": (),
    "gp3": _GP3_STEPS,
    "io1": (),
    # It begins where gp3 ends, which sells both for less. At 16,000 IOPS of 256 KiB it reaches all its MiB/s.
    "io2": ((16000, None), (256000, None)),
    "premium-ssd": (),
    "premium-ssd-v2": _PREMIUM_V2_STEPS,
    "ultra": _ULTRA_STEPS,
}
# Ladders for a question that allows few types: each reaches as far as its type can.
_IO_STEPS: _Steps = tuple((iops, None) for iops in (3000, 8000, 16000, 32000, 64000, 128000, 256000))
_WIDE_STEPS: Mapping[str, _Steps] = {
    "gp3": _GP3_STEPS,
    "io1": _IO_STEPS,
    "io2": _IO_STEPS,
    "premium-ssd-v2": _PREMIUM_V2_STEPS,
    "ultra": ((3000, 125), (16000, 500), (80000, 1907), *_ULTRA_STEPS),
}
# Such a type pays only on an instance that passes on more than so many IOPS or MiB/s.
_WORTH_BEYOND = {"io2": (80000.0, 2000.0), "ultra": (80000.0, 1907.0)}


def rate_ladder(rule: DiskRule, smallest_gib: float, *, wide: bool) -> Iterator[DiskChoice]:
    """Orders of one type from the smallest size that holds the data, slowest first.

    If rate grows with size, each step doubles the size until the rate stops growing. `wide`: other types are
    not allowed, so the ladder has rates that those would sell for less."""
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


def trimmed_order(
    instance: InstanceType, choice: DiskChoice, rule: DiskRule, *, wide: bool
) -> DiskChoice | None:
    """The order without rates that the instance does not pass on; None where the type cannot pay there."""
    assert choice.size_gib is not None
    iops, mib_per_second = choice.iops, choice.mib_per_second
    if iops is not None:
        limit, max_rate = instance.ebs_baseline_iops, instance.ebs_baseline_mib_per_second or 0.0
        beyond = None if wide else _WORTH_BEYOND.get(rule.type)
        if beyond and (limit or 0.0) <= beyond[0] and max_rate <= beyond[1]:
            return None
        iops = min(iops, max(limit or iops, rule.included_iops(choice.size_gib) or 0.0))
    if mib_per_second is not None:
        limit = instance.ebs_baseline_mib_per_second or mib_per_second
        mib_per_second = min(mib_per_second, max(math.ceil(limit), rule.provision_mib_s_min or 0.0))
    if (iops, mib_per_second) == (choice.iops, choice.mib_per_second):
        return choice
    return DiskChoice(type=choice.type, size_gib=choice.size_gib, iops=iops, mib_per_second=mib_per_second)


def undominated(disks: Iterable[Disk]) -> list[Disk]:
    """Disks, cheapest first, without those that a cheaper one equals in rate, IOPS and latency.

    For a type whose rate grows with its size, the first equalled step stays if a smaller step did: a size
    between the two may cost less than the disk that equals the step."""
    kept: list[Disk] = []
    may_end: set[str] = set()
    for disk in sorted(disks, key=lambda offered: (offered.usd_per_hour, offered.rate.type)):
        rate = disk.rate
        equalled = any(
            (other.rate.read_mib_per_second or 0) >= (rate.read_mib_per_second or 0)
            and (other.rate.read_iops or 0) >= (rate.read_iops or 0)
            and (other.rate.read_latency_seconds or 0) <= (rate.read_latency_seconds or 0)
            for other in kept
        )
        if not equalled or (_grows_with_size(disk) and disk.rate.type in may_end):
            kept.append(disk)
        if equalled:
            may_end.discard(disk.rate.type)
        elif _grows_with_size(disk):
            may_end.add(disk.rate.type)
    return kept


def _grows_with_size(disk: Disk) -> bool:
    return disk.choice.iops is None and disk.choice.mib_per_second is None


# Columns of a table of list prices; an import adds currency and kind.
_USD_PER_MONTH = ("usd_per_gib_month", "usd_per_iops_month", "usd_per_mib_s_month")
LISTED_COLUMNS = ("region", "type", *_USD_PER_MONTH, "source")
_FLAT = ("usd_per_gib_month", "usd_per_mib_s_month")

# (region, disk type) -> a row of a disk price table in dollars.
Rows = dict[tuple[str, str], dict[str, str]]


def imported_prices(
    imports: Iterable[Files], cloud: str, currencies: Mapping[str, Currency]
) -> tuple[Rows, dict[str, Origin]]:
    """The prices of disks in imports, in dollars, and their origins; later imports win."""
    rows: Rows = {}
    origins: dict[str, Origin] = {}
    for files in imports:
        known = read_origins(files)
        for row in files.table(f"catalog/{cloud}_disk_prices.csv").records():
            name, rate, origin = row["currency"], currencies[row["currency"]], known[row["source"]]
            key = f"told {len(origins) + 1}"
            converted = "" if name == "USD" else f"; {name} at {rate}"
            origins[key] = Origin(f"{origin.text}{converted}", origin.as_of)
            usd = {part: f"{float(row[part]) / rate.per_usd!r}" for part in _FLAT}
            (_, per_iops), *_ = _price_tiers(row["usd_per_iops_month"])
            tiers = f"0:{per_iops / rate.per_usd!r}"
            rows[row["region"], row["type"]] = row | usd | {"usd_per_iops_month": tiers, "source": key}
    return rows, origins


class PriceParts(NamedTuple):
    """A disk type's monthly price: the IOPS at which its tiers begin; the dollars of a GiB, of a MiB/s, of an
    IOPS in each tier, then of a disk of each of `sizes` (GiB), where the type is sold in no others."""

    tiers: tuple[float, ...]
    usd: tuple[float, ...]
    sizes: tuple[float, ...] = ()


def price_parts(row: Mapping[str, str]) -> PriceParts:
    """The parts of the price in a row of a disk price table."""
    steps = _price_tiers(row["usd_per_iops_month"])
    apart = float(row["usd_per_gib_month"]), float(row["usd_per_mib_s_month"])
    sold = _price_tiers(row.get("usd_per_size_month") or "")
    usd = (*apart, *(usd for _, usd in steps), *(usd for _, usd in sold))
    return PriceParts(tuple(above for above, _ in steps), usd, tuple(gib for gib, _ in sold))


def is_nowhere_cheaper(own: PriceParts, other: PriceParts) -> bool:
    """True if no size and no rate costs less by `other` than by `own`; False where their tiers differ."""
    pairs = zip(own.usd, other.usd, strict=False)
    return own.tiers == other.tiers and all(mine <= theirs for mine, theirs in pairs)


def usd_per_month(parts: PriceParts, gib: float, iops: float, mib_per_second: float) -> float:
    """Monthly dollars of a disk of `gib`, with so many IOPS and MiB/s above what the size includes."""
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
def _price_tiers(tiers: str) -> tuple[tuple[float, float], ...]:
    """'0:0.065|32000:0.0455' -> (first IOPS, dollars of an IOPS) of each tier; cached by text."""
    pairs = (tier.split(":") for tier in tiers.split("|") if tier)
    return tuple((float(above), float(usd)) for above, usd in pairs)
