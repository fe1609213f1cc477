"""Disks of one cloud on its instances: effective rates, prices, and which are worth a look.

The effective rate is the lower of the volume's and of the instance's own sustained limit.
Prices are per month in the source; an hour is a 730th of that. "GB-month" is billed per GiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from advisor.catalog.disk_rules import DiskRule, rule_from
from advisor.catalog.files import Files
from advisor.catalog.instances import Origin
from advisor.domain import HOURS_PER_MONTH, Disk, DiskChoice, DiskRate, InstanceType, Price
from advisor.errors import NoOfferError, UsageError, unknown_name
from advisor.units import parse_memory_mib, parse_positive, parse_rate_mib_per_second

LOCAL = "instance_store"
# Space beside the data set, for checkpoints, shuffled copies and the file system itself.
HEADROOM = 1.2
# Local disks are known by their random 4 KiB reads alone; IOPS x 4 KiB is a floor of what
# larger reads reach.
LOCAL_IO_KIB = 4
# A flash drive's own; the catalogue has none of it.
_LOCAL_LATENCY_SECONDS = 1e-4

# (type, IOPS, MiB/s) worth a look; None: what the type gives unasked. Files that lie in no cache
# take IOPS before they take bandwidth: a photograph is read in several operations. No more is
# bought than the instance passes on. gp3 gives every IOPS of io2 for less.
_VARIANTS: tuple[tuple[str, float | None, float | None], ...] = (
    ("st1", None, None),
    ("gp3", None, None),
    ("gp3", 8000, 250),
    ("gp3", 16000, 500),
    ("gp3", 40000, 1000),
    ("gp3", 64000, 2000),
)


class DiskCatalog:
    """The volume types of one cloud, with their rules and prices."""

    def __init__(self, cloud: str, files: Files, origins: Mapping[str, Origin]) -> None:
        self._origins = origins
        self._rule_table = files.table(f"catalog/{cloud}_disk_types.csv")
        self._price_table = files.table(f"catalog/{cloud}_disk_prices.csv")

    @cached_property
    def rules(self) -> Mapping[str, DiskRule]:
        """Network volume types by name."""
        return {row["type"]: rule_from(row) for row in self._rule_table.records()}

    @property
    def types(self) -> tuple[str, ...]:
        """Every disk type that can be asked for."""
        return (*self.rules, LOCAL)

    def parse_choice(self, text: str) -> DiskChoice:
        """'gp3:158GiB:6000iops:250MiB/s', or less of it from the right, as a `DiskChoice`."""
        named, *extras = text.strip().split(":")
        sizes = [part for part in extras if not _is_provisioning(part)]
        if len(sizes) > 1:
            raise UsageError(f"'{text}' is no disk; write it like gp3:158GiB:6000iops:250MiB/s")
        disk_type, size_gib = self.parse(":".join([named, *sizes]))
        iops = [part for part in extras if part.lower().endswith("iops")]
        rates = [part for part in extras if "/" in part]
        choice = DiskChoice(
            type=disk_type,
            size_gib=size_gib,
            iops=parse_positive(iops[0][:-4], "IOPS") if iops else None,
            mib_per_second=parse_rate_mib_per_second(rates[0]) if rates else None,
        )
        if disk_type != LOCAL and size_gib:
            self.volume_rate(
                disk_type, size_gib, iops=choice.iops, mib_per_second=choice.mib_per_second
            )
        return choice

    def parse(self, text: str) -> tuple[str, float | None]:
        """'gp3:500GiB' -> ('gp3', 500.0); 'gp3' -> ('gp3', None), sized for the data set later."""
        name, colon, size = text.strip().partition(":")
        disk_type = name.strip().lower()
        if disk_type not in self.types:
            raise unknown_name("disk type", name.strip(), self.types)
        if not colon:
            return disk_type, None
        size_gib = parse_memory_mib(size) / 1024
        if disk_type != LOCAL:
            self.rules[disk_type].require_size(size_gib)
        return disk_type, size_gib

    def volume_rate(
        self,
        disk_type: str,
        size_gib: float,
        *,
        iops: float | None = None,
        mib_per_second: float | None = None,
    ) -> DiskRate:
        """What a volume itself sustains, whatever it is attached to."""
        return self._rule(disk_type).rate(size_gib, iops, mib_per_second)

    def volume_price(
        self,
        disk_type: str,
        size_gib: float,
        region: str,
        *,
        iops: float | None = None,
        mib_per_second: float | None = None,
    ) -> Price:
        """What a volume costs by the hour; `NoOfferError` where no price is known."""
        rule = self._rule(disk_type)
        rule.rate(size_gib, iops, mib_per_second)
        row = self._prices.get((region, disk_type))
        if row is None:
            where = ", ".join(sorted(r for r, t in self._prices if t == disk_type))
            raise NoOfferError(f"no price of {disk_type} in {region} is known; it is in: {where}")
        extra_iops, extra_rate = rule.billed(size_gib, iops, mib_per_second)
        month = size_gib * float(row["usd_per_gib_month"])
        month += _tiered(row["usd_per_iops_month"], extra_iops)
        month += extra_rate * float(row["usd_per_mib_s_month"])
        origin = self._origins[row["source"]]
        return Price(
            usd_per_hour=month / HOURS_PER_MONTH,
            kind="list",
            as_of=origin.as_of,
            source=origin.text,
        )

    def attach(
        self,
        instance: InstanceType,
        disk_type: str,
        size_gib: float,
        region: str,
        *,
        iops: float | None = None,
        mib_per_second: float | None = None,
    ) -> Disk:
        """A disk on an instance: the lower of both limits, and the price.

        `binding_limit` says whose throughput limit is the lower one. `UsageError` for a size or
        provisioning that is not sold, and for local disks the instance does not have.
        """
        if disk_type == LOCAL:
            return _local(instance, size_gib)
        volume = self.volume_rate(disk_type, size_gib, iops=iops, mib_per_second=mib_per_second)
        price = self.volume_price(
            disk_type, size_gib, region, iops=iops, mib_per_second=mib_per_second
        )
        choice = DiskChoice(
            type=disk_type, size_gib=size_gib, iops=iops, mib_per_second=mib_per_second
        )
        return _on_instance(instance, volume, choice, size_gib, price)

    def fitting_size(self, disk_type: str, dataset_gib: float) -> float:
        """Smallest whole GiB of a type that holds a data set with headroom."""
        needed = math.ceil(dataset_gib * HEADROOM)
        if disk_type == LOCAL:
            return float(max(1, needed))
        rule = self._rule(disk_type)
        size = max(rule.min_gib, float(needed))
        rule.require_size(size)
        return size

    def candidate_disks(
        self, instance: InstanceType, dataset_gib: float, region: str
    ) -> list[Disk]:
        """Disks worth a look for a data set, cheapest first.

        Local disks where they are large enough and their rate is known; of the network volumes
        those that no cheaper one equals on this instance. Volumes without a price are left out.
        """
        volumes = self._candidate_volumes(instance, dataset_gib, region)
        local = _local_if_it_fits(instance, dataset_gib)
        return ([local] if local else []) + _undominated(volumes)

    def _candidate_volumes(
        self, instance: InstanceType, dataset_gib: float, region: str
    ) -> Iterator[Disk]:
        for disk_type, iops, rate in _VARIANTS:
            rule = self.rules.get(disk_type)
            if rule is None or (region, disk_type) not in self._prices:
                continue
            size = max(rule.min_gib, float(math.ceil(dataset_gib * HEADROOM)))
            if size > rule.max_gib:
                continue
            useful = _useful(rule, instance, size, iops, rate)
            if useful is not None:
                yield self.attach(
                    instance, disk_type, size, region, iops=useful[0], mib_per_second=useful[1]
                )

    @cached_property
    def _prices(self) -> dict[tuple[str, str], dict[str, str]]:
        return {(row["region"], row["type"]): row for row in self._price_table.records()}

    def _rule(self, disk_type: str) -> DiskRule:
        if disk_type not in self.rules:
            raise unknown_name("disk type", disk_type, self.types)
        return self.rules[disk_type]


def _is_provisioning(part: str) -> bool:
    return part.lower().endswith("iops") or "/" in part


def _on_instance(
    instance: InstanceType, volume: DiskRate, choice: DiskChoice, size_gib: float, price: Price
) -> Disk:
    limit = instance.ebs_baseline_mib_per_second
    own, own_iops = volume.read_mib_per_second, volume.read_iops
    assert own is not None
    assert own_iops is not None
    rate = replace(
        volume,
        read_mib_per_second=own if limit is None else min(own, limit),
        read_iops=min(own_iops, instance.ebs_baseline_iops or own_iops),
    )
    binding = "instance" if limit is not None and limit < own else "volume"
    return Disk(rate=rate, choice=choice, size_gib=size_gib, binding_limit=binding, price=price)


def _local(instance: InstanceType, size_gib: float) -> Disk:
    """All local disks of the instance, striped; their price is part of the instance's."""
    has = instance.instance_store_gib
    if has == 0:
        raise UsageError(f"{instance.name} has no local disk; use a network disk such as gp3")
    iops = instance.instance_store_read_iops
    if iops is None:
        raise UsageError(
            f"how fast {instance.name} reads its local disk is not known; use a network disk "
            "such as gp3"
        )
    if not 0 < size_gib <= has:
        raise UsageError(f"{instance.name} has {has:.0f}GiB of local disk, not {size_gib:g}GiB")
    rate = DiskRate(
        type=LOCAL,
        read_mib_per_second=iops * LOCAL_IO_KIB / 1024,
        read_iops=iops,
        read_latency_seconds=_LOCAL_LATENCY_SECONDS,
    )
    return Disk(rate=rate, choice=DiskChoice(type=LOCAL), size_gib=has, binding_limit="volume")


def _local_if_it_fits(instance: InstanceType, dataset_gib: float) -> Disk | None:
    has, needed = instance.instance_store_gib, dataset_gib * HEADROOM
    if instance.instance_store_read_iops is None or not 0 < needed <= has:
        return None
    return _local(instance, needed)


def _useful(
    rule: DiskRule,
    instance: InstanceType,
    size_gib: float,
    iops: float | None,
    mib_per_second: float | None,
) -> tuple[float | None, float | None] | None:
    """Provisioning cut to what the instance passes on; None where the size cannot have it."""
    if iops is not None:
        passed = max(instance.ebs_baseline_iops or iops, rule.included_iops(size_gib) or 0.0)
        iops = min(iops, passed)
        if rule.provision_iops_per_gib and iops > rule.provision_iops_per_gib * size_gib:
            return None
    if mib_per_second is not None:
        limit = instance.ebs_baseline_mib_per_second or mib_per_second
        mib_per_second = min(mib_per_second, max(math.ceil(limit), rule.provision_mib_s_min or 0.0))
    return iops, mib_per_second


def _undominated(disks: Iterable[Disk]) -> list[Disk]:
    """Cheapest first, without those that a cheaper one equals in rate and in IOPS."""
    kept: list[Disk] = []
    for disk in sorted(disks, key=lambda one: (one.usd_per_hour, one.rate.type)):
        if not any(_at_least(other.rate, disk.rate) for other in kept):
            kept.append(disk)
    return kept


def _at_least(other: DiskRate, rate: DiskRate) -> bool:
    return (other.read_mib_per_second or 0) >= (rate.read_mib_per_second or 0) and (
        other.read_iops or 0
    ) >= (rate.read_iops or 0)


def _tiered(tiers: str, amount: float) -> float:
    """'0:0.065|32000:0.0455' -> cost of `amount`, each tier from its lower end to the next."""
    steps = [(float(above), float(usd)) for above, usd in (t.split(":") for t in tiers.split("|"))]
    ends = [above for above, _ in steps[1:]] + [math.inf]
    return sum(
        max(0.0, min(amount, end) - above) * usd
        for (above, usd), end in zip(steps, ends, strict=True)
    )
