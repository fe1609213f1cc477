"""Disks of one cloud on its instances: effective rates, prices, and which are worth a prediction.

The effective rate is the lower of the volume's and the instance's sustained limits. Sources have prices per
month; an hour is a 730th of that. "GB-month" is billed per GiB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import disk_orders
from advisor.catalog.assumed import (
    RATES,
    USD_PER_GIB_MONTH,
    Facts,
    facts_of_disk,
    uncertainty_factors,
    with_facts_of_disk,
)
from advisor.catalog.bundle import Files, Table, table_if_any
from advisor.catalog.disk_rules import DiskRule, burst_on, rule_from, rules_path, volume_burst
from advisor.catalog.instances import Origin
from advisor.domain import (
    ESTIMATED,
    HOURS_PER_MONTH,
    LIST,
    AssumedFact,
    Burst,
    Disk,
    DiskChoice,
    DiskRate,
    InstanceType,
    Price,
)
from advisor.errors import NoOfferError, UsageError

# An order with its volume's rate, price and assumed facts; an instance's limits (MiB/s, IOPS; None: none).
_Volume = tuple[DiskChoice, DiskRate, Price, tuple[AssumedFact, ...]]
_Limits = tuple[float | None, float | None]

# Most cached lists of disks, and orders: a service sees many data sets.
_MOST_KEPT, _MOST_VOLUMES = 4096, 16_384


class DiskCatalog(Struct, dict=True, eq=False):
    """The volume types of one cloud, with their rules and prices; imported prices beside those of `files`."""

    cloud: str
    _files: Files
    _origins: Mapping[str, Origin]
    _imported: disk_orders.Rows
    _facts: Facts
    _ladders: dict[tuple[float, str, tuple[str, ...]], tuple[_Volume, ...]] = {}
    _candidates: dict[tuple[object, ...], list[Disk]] = {}
    _priced: dict[tuple[DiskChoice, str], _Volume] = {}
    _disks: dict[tuple[DiskChoice, str, _Limits], Disk] = {}

    @cached_property
    def rules(self) -> Mapping[str, DiskRule]:
        """Network volume types by name."""
        sizes: dict[str, list[dict[str, str]]] = {}
        for size in self._table("sizes").records():
            sizes.setdefault(size["type"], []).append(size)
        return {name: rule_from(row, sizes.get(name, ())) for name, row in self._rule_rows.items()}

    def has_price(self, disk_type: str, region: str) -> bool:
        """Return whether the source lists a price; estimates and imported prices do not count."""
        return (region, disk_type) in self._listed

    @property
    def types(self) -> tuple[str, ...]:
        """Every disk type that a question may name."""
        return (*self.rules, disk_orders.LOCAL)

    def parse_choice(self, text: str) -> DiskChoice:
        """The order in a text such as 'gp3:158GiB:6000iops:250MiB/s'; parts may be missing from the right."""
        return disk_orders.parse_choice(text, self.rules)

    def parse(self, text: str) -> tuple[str, float | None]:
        """Type and GiB in a text: 'gp3:500GiB' -> ('gp3', 500.0); 'gp3' -> ('gp3', None), sized later."""
        choice = self.parse_choice(text)
        if choice.iops or choice.mib_per_second:
            raise UsageError(f"'{text}' says more than a type and a size, like gp3:500GiB")
        return choice.type, choice.size_gib

    def price(self, choice: DiskChoice, region: str) -> Price:
        """The hourly price of an order of a known size; `NoOfferError` if none is known."""
        self.rate(choice)  # refuses what is not sold
        return self._price(choice, region)

    def attach(
        self, instance: InstanceType, choice: DiskChoice, region: str, *, unpriced: bool = False
    ) -> Disk:
        """The disk of an order of a known size on an instance: the lower of both limits, and the price.

        `binding_limit` says whose throughput limit is lower. `UsageError` for a size or provisioning that is
        not sold, and for local disks that the instance lacks; `NoOfferError` without a known price, unless
        `unpriced` allows it."""
        if choice.type == disk_orders.LOCAL:
            return disk_orders.local_disk(instance, choice.size_gib or 0.0)
        self._rule(choice.type)
        if not self._is_attachable(instance, choice.type):
            takes = ", ".join(self._limits[instance.name])
            raise UsageError(f"{instance.name} takes no {choice.type} disk; it takes: {takes}")
        if unpriced and (region, choice.type) not in self._prices:
            assumed = facts_of_disk(self._facts, choice.type)
            return _on_instance(
                self._limits_of(instance, choice.type), choice, self.rate(choice), None, assumed
            )
        return self._attached(instance, choice, region)

    def with_burst(self, instance: InstanceType, disk: Disk) -> Disk:
        """A disk on its instance, with its burst; local disks have none."""
        if disk.is_local:
            return disk
        volume, size_gib = self.rate(disk.choice), disk.choice.size_gib or 0.0
        return replace(disk, burst=self.burst_of(volume, size_gib, instance))

    def burst(self, choice: DiskChoice) -> Burst | None:
        """The burst of an order of a known size without an instance; None if its rate lasts."""
        return self.burst_of(self.rate(choice), choice.size_gib or 0.0)

    def burst_of(
        self, volume: DiskRate, size_gib: float, instance: InstanceType | None = None
    ) -> Burst | None:
        """The burst of a volume of that rate and size, on an instance if given; None for no burst."""
        takes = None
        if instance:  # with its listed limits for the type, if any
            mib_per_second, iops = self._limits_of(instance, volume.type)
            takes = replace(instance, ebs_baseline_mib_per_second=mib_per_second, ebs_baseline_iops=iops)
        row, rule = self._rule_rows[volume.type], self.rules[volume.type]
        return burst_on(takes, volume, volume_burst(rule, row, size_gib, volume))

    def sustained_rate(self, volume: DiskRate, instance: InstanceType | None = None) -> DiskRate:
        """The sustained rate of a volume, on an instance if given."""
        return volume if instance is None else _limited_rate(self._limits_of(instance, volume.type), volume)

    def regional_prices(self, choice: DiskChoice) -> dict[str, Price]:
        """Prices of an order of a known size by region."""
        regions = sorted(region for region, name in self._prices if name == choice.type)
        return {region: self._price(choice, region) for region in regions}

    def without_cheaper_disks(self, region: str, others: Iterable[str]) -> list[str]:
        """Those of `others` where no disk costs less than in `region`, and none is sold that `region` lacks.
        An estimated price never counts as less than a listed one."""
        own = self._parts_by_region.get(region, {})
        return [
            other
            for other in others
            if all(
                kind in own
                and disk_orders.is_nowhere_cheaper(own[kind], parts)
                and (self._is_listed(region, kind) or not self._is_listed(other, kind))
                for kind, parts in self._parts_by_region.get(other, {}).items()
            )
        ]

    def _is_listed(self, region: str, kind: str) -> bool:
        return (self._prices[region, kind].get("kind") or LIST) == LIST

    def fitting_size(self, disk_type: str, dataset_gib: float, iops: float | None = None) -> float:
        """Smallest whole GiB of a type that holds a data set with headroom and allows `iops`."""
        needed = math.ceil(dataset_gib * disk_orders.HEADROOM)
        if disk_type == disk_orders.LOCAL:
            return float(max(1, needed))
        rule = self._rule(disk_type)
        size = rule.size_for(max(rule.min_gib, float(needed)), iops)
        rule.require_size(size)
        return size

    def candidate_disks(
        self, instance: InstanceType, dataset_gib: float, region: str, types: tuple[str, ...] = ()
    ) -> list[Disk]:
        """Disks worth a prediction for a data set, cheapest first.

        They are the local disks, where large enough and of a known rate, and the priced network volumes that
        no cheaper one equals on this instance. `types` limits them, unless it is empty."""
        volumes = self._volumes(instance, dataset_gib, region, types)
        needed = dataset_gib * disk_orders.HEADROOM
        if disk_orders.LOCAL not in (types or self.types) or instance.instance_store_read_iops is None:
            return volumes
        fits = 0 < needed <= instance.instance_store_gib
        return [disk_orders.local_disk(instance, needed), *volumes] if fits else volumes

    def _volumes(
        self, instance: InstanceType, dataset_gib: float, region: str, types: tuple[str, ...]
    ) -> list[Disk]:
        """The network volumes of `candidate_disks`, cached for all instances with the same limits."""
        own = instance.ebs_baseline_mib_per_second, instance.ebs_baseline_iops
        listed = instance.name if instance.name in self._limits else None
        key = (dataset_gib, region, types, own, listed)
        worth = self._candidates.get(key)
        if worth is None:
            trimmed = (
                disk_orders.trimmed_order(instance, choice, self.rules[choice.type], wide=bool(types))
                for choice, *_ in self._ladder(dataset_gib, region, types)
                if self._is_attachable(instance, choice.type)
            )
            attached = [self._attached(instance, choice, region) for choice in trimmed if choice]
            worth = disk_orders.undominated(attached)
            # Of a hard disk only the fastest step stays: the search shrinks it.
            fastest = {disk.rate.type: disk for disk in worth}
            hard = {kind for kind in fastest if kind in self.rules and self.rules[kind].media == "hdd"}
            worth = [disk for disk in worth if disk is fastest[disk.rate.type] or disk.rate.type not in hard]
            if len(self._candidates) >= _MOST_KEPT:
                self._candidates.clear()
                self._ladders.clear()
            self._candidates[key] = worth
        return worth

    def _ladder(self, dataset_gib: float, region: str, types: tuple[str, ...]) -> tuple[_Volume, ...]:
        """Volumes worth a prediction on some instance, cached for all of them."""
        key = (dataset_gib, region, types)
        if key not in self._ladders:
            needed = float(math.ceil(dataset_gib * disk_orders.HEADROOM))
            steps = [
                self._volume(choice, region)
                for name, rule in self.rules.items()
                if name in (types or self.rules) and (region, name) in self._prices
                for choice in disk_orders.rate_ladder(rule, max(rule.min_gib, needed), wide=bool(types))
            ]
            # An instance may limit types differently, so that a dearer volume is the faster one there.
            if not self._limits:
                kept = disk_orders.undominated(_on_instance((None, None), *volume) for volume in steps)
                steps = [(disk.choice, disk.rate, disk.price, disk.assumed) for disk in kept if disk.price]
            self._ladders[key] = tuple(steps)
        return self._ladders[key]

    def _attached(self, instance: InstanceType, choice: DiskChoice, region: str) -> Disk:
        limits = self._limits_of(instance, choice.type)
        disk = self._disks.get((choice, region, limits))
        if disk is None:
            if len(self._disks) >= _MOST_VOLUMES:
                self._disks.clear()
            disk = _on_instance(limits, *self._volume(choice, region))
            self._disks[choice, region, limits] = disk
        return disk

    def _volume(self, choice: DiskChoice, region: str) -> _Volume:
        """An order with its rate, price and assumed facts, cached; an exact price rests on none."""
        volume = self._priced.get((choice, region))
        if volume is None:
            price = self._price(choice, region)
            kinds = (*RATES, USD_PER_GIB_MONTH) if price.kind == ESTIMATED else RATES
            if len(self._priced) >= _MOST_VOLUMES:
                self._priced.clear()
            volume = choice, self.rate(choice), price, facts_of_disk(self._facts, choice.type, kinds)
            self._priced[choice, region] = volume
        return volume

    def instance_limits(self, instance: InstanceType, disk_type: str) -> tuple[float, float]:
        """MiB/s and IOPS above which no disk of a type is faster on an instance."""
        mib_per_second, iops = self._limits_of(instance, disk_type)
        return math.inf if mib_per_second is None else mib_per_second, iops or math.inf

    def _limits_of(self, instance: InstanceType, disk_type: str) -> _Limits:
        own = instance.ebs_baseline_mib_per_second, instance.ebs_baseline_iops
        listed = self._limits.get(instance.name, {}).get(disk_type, own)
        return own if listed == (None, None) else listed

    def rate(self, choice: DiskChoice) -> DiskRate:
        """The sustained rate of an order of a known size, before any instance's limit."""
        assert choice.size_gib is not None
        rate = self._rule(choice.type).rate(choice.size_gib, choice.iops, choice.mib_per_second)
        assumed = facts_of_disk(self._facts, rate.type)
        if not assumed:
            return rate
        low, high = uncertainty_factors(assumed)
        return replace(rate, low=low, high=high)

    def assumed_of(self, disk_type: str) -> tuple[AssumedFact, ...]:
        """Assumed facts of a type's rates and price."""
        return facts_of_disk(self._facts, disk_type, (*RATES, USD_PER_GIB_MONTH))

    def _price(self, choice: DiskChoice, region: str) -> Price:
        rule, size_gib = self.rules[choice.type], choice.size_gib
        assert size_gib is not None
        row = self._prices.get((region, choice.type))
        if row is None:
            where = ", ".join(sorted(r for r, t in self._prices if t == choice.type))
            known = f"it is in: {where}" if where else "nor is it anywhere else"
            raise NoOfferError(f"no price of {choice.type} in {region} is known; {known}")
        extra_iops, extra_rate = rule.billed(size_gib, choice.iops, choice.mib_per_second)
        month = disk_orders.usd_per_month(
            self._parts_by_region[region][choice.type], size_gib, extra_iops, extra_rate
        )
        origin = self._origins[row["source"]]
        return Price(
            usd_per_hour=month / HOURS_PER_MONTH,
            kind=row.get("kind") or LIST,
            as_of=origin.as_of,
            source=origin.text,
            low=float(row.get("low") or 1),
            high=float(row.get("high") or 1),
            max_age_days=origin.max_age_days,
            note=origin.note,
        )

    def _is_attachable(self, instance: InstanceType, disk_type: str) -> bool:
        """Return whether the instance takes the type; without a list of its types it takes all."""
        listed = self._limits.get(instance.name)
        return listed is None or disk_type in listed

    def _table(self, name: str) -> Table:
        return table_if_any(self._files, f"catalog/{self.cloud}_disk_{name}.csv")

    @cached_property
    def _rule_rows(self) -> dict[str, dict[str, str]]:
        rows = self._files.table(
            rules_path(self._files, self.cloud) or f"the disks of {self.cloud}"
        ).records()
        return {row["type"]: with_facts_of_disk(row, self._facts) for row in rows}

    @cached_property
    def _limits(self) -> dict[str, dict[str, _Limits]]:
        """Instance type -> disk type -> its listed (MiB/s, IOPS); (None, None): the instance's limits."""
        limits_of: dict[str, dict[str, _Limits]] = {}
        for row in self._table("limits").records():
            rate, iops = row["read_mib_s"], row["read_iops"]
            limits = float(rate) if rate else None, float(iops) if iops else None
            limits_of.setdefault(row["instance_type"], {})[row["disk_type"]] = limits
        return limits_of

    @cached_property
    def _bundled(self) -> disk_orders.Rows:
        return {(row["region"], row["type"]): row for row in self._table("prices").records()}

    @cached_property
    def _listed(self) -> disk_orders.Rows:
        return {key: row for key, row in self._bundled.items() if row.get("kind", LIST) != ESTIMATED}

    @cached_property
    def _prices(self) -> disk_orders.Rows:
        """Price rows: listed ones win, then imported ones, then estimates."""
        return {**self._bundled, **self._imported, **self._listed}

    @cached_property
    def _parts_by_region(self) -> dict[str, dict[str, disk_orders.PriceParts]]:
        parts: dict[str, dict[str, disk_orders.PriceParts]] = {}
        for (region, kind), row in self._prices.items():
            parts.setdefault(region, {})[kind] = disk_orders.price_parts(row)
        return parts

    def _rule(self, disk_type: str) -> DiskRule:
        if disk_type not in self.rules:
            raise disk_orders.unknown_disk(disk_type, self.types)
        return self.rules[disk_type]


def _on_instance(
    limits: _Limits,
    choice: DiskChoice,
    volume: DiskRate,
    price: Price | None,
    assumed: tuple[AssumedFact, ...] = (),
) -> Disk:
    rate = _limited_rate(limits, volume)
    return Disk(
        rate=rate,
        choice=choice,
        size_gib=choice.size_gib or 0.0,
        binding_limit="volume" if rate.read_mib_per_second == volume.read_mib_per_second else "instance",
        price=price,
        assumed=assumed,
    )


def _limited_rate(limits: _Limits, volume: DiskRate) -> DiskRate:
    """A volume's rate within an instance's limits."""
    limit, limit_iops = limits
    own, own_iops = volume.read_mib_per_second, volume.read_iops
    assert own is not None
    assert own_iops is not None
    mib_per_second = own if limit is None else min(own, limit)
    iops = min(own_iops, limit_iops or own_iops)
    if (mib_per_second, iops) == (own, own_iops):
        return volume
    return replace(volume, read_mib_per_second=mib_per_second, read_iops=iops)
