"""Baseline and burst rates of a volume by type and size, from rules in the bundle.

A rate is also limited to IOPS x the largest request that counts as one (256 KiB on SSD, 1 MiB on HDD): a 100
GiB gp2 volume keeps 300 IOPS, so 75 MiB/s, although it may burst to 128.

gp2, st1 and sc1 of AWS and the smaller Premium SSDs of Azure are faster while burst credits last, and so are
small instances. Credits never enter an answer's rates; `Burst` has the faster rates, to tell a short test
from what lasts. Rules: EC2 User Guide, `general-purpose.md`, `hdd-vols.md` and `ebs-optimized.md`; Azure,
`disk-storage-premium-ssd-sizes.md`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from advisor.catalog.bundle import Files
from advisor.domain import Burst, DiskRate, InstanceType
from advisor.domain.machines import number_of
from advisor.errors import UsageError

# Provisioned-IOPS types (io1, io2) include no IOPS; an order without any gets gp3's.
DEFAULT_PROVISIONED_IOPS = 3000.0


def rules_path(files: Files, cloud: str) -> str | None:
    """The path of a cloud's table of volume types (under CC BY-SA 4.0 in `sparecores`); None for no table."""
    paths = (f"{folder}/{cloud}_disk_types.csv" for folder in ("catalog", "sparecores"))
    return next((path for path in paths if files.has(path)), None)


class DiskSize(Struct, frozen=True, kw_only=True):
    """A size that a type is sold in, with its sustained rate and its burst rate (None: no burst).

    A disk of any other size is billed, and runs, as the next larger of these."""

    gib: float
    iops: float
    mib_s: float
    burst_iops: float | None = None
    burst_mib_s: float | None = None


class DiskRule(Struct, frozen=True, kw_only=True):
    """The sizes and rates of one volume type; None means that the type has no such term.

    Unprovisioned IOPS: `iops_base + iops_per_gib * GiB`, held in `iops_floor`..`iops_cap`. MiB/s: `mib_s_base
    + mib_s_per_gib * GiB` (or `mib_s_large` from `mib_s_large_from_gib` on, or `mib_s_per_provisioned_iops`
    where that is more), up to `mib_s_cap`. A type with `sizes` has the IOPS and MiB/s of its size instead."""

    type: str
    media: str
    min_gib: float
    max_gib: float
    max_io_kib: float
    iops_base: float | None
    iops_per_gib: float | None
    iops_floor: float | None
    iops_cap: float | None
    provision_iops_min: float | None
    provision_iops_per_gib: float | None
    provision_iops_max: float | None
    mib_s_base: float
    mib_s_per_gib: float
    mib_s_cap: float
    mib_s_large_from_gib: float | None
    mib_s_large: float | None
    mib_s_per_provisioned_iops: float | None
    provision_mib_s_min: float | None
    provision_mib_s_per_iops: float | None
    provision_mib_s_max: float | None
    typical_read_latency_ms: float
    sizes: tuple[DiskSize, ...] = ()

    def require_size(self, size_gib: float) -> None:
        """`UsageError` for a size that the type is not sold in."""
        if not (math.isfinite(size_gib) and self.min_gib <= size_gib <= self.max_gib):
            raise UsageError(
                f"a {self.type} disk has {self.min_gib:g}GiB to {self.max_gib:g}GiB, not {size_gib:g}GiB"
            )

    def sold_as(self, size_gib: float) -> DiskSize | None:
        """The size that a disk is billed as; None where the type is billed by the GiB."""
        self.require_size(size_gib)
        return next((size for size in self.sizes if size.gib >= size_gib), None)

    def size_for(self, size_gib: float, iops: float | None = None) -> float:
        """The smallest size from `size_gib` on that is sold and allows `iops`."""
        if self.sizes and size_gib <= self.max_gib:
            sold = self.sold_as(size_gib)
            return sold.gib if sold else size_gib
        if iops is None or self.provision_iops_per_gib is None:
            return size_gib
        if iops <= (self.included_iops(size_gib) or 0.0):
            return size_gib
        return max(size_gib, float(math.ceil(iops / self.provision_iops_per_gib)))

    def included_iops(self, size_gib: float) -> float | None:
        """IOPS that the size includes; None where they are provisioned or follow the rate."""
        sold = self.sold_as(size_gib) if self.sizes else None
        if sold:
            return sold.iops
        if self.iops_base is None or self.iops_per_gib is None:
            return None
        iops = self.iops_base + self.iops_per_gib * size_gib
        return min(max(iops, self.iops_floor or 0.0), self.iops_cap or math.inf)

    def provisioned_iops(self, size_gib: float, iops: float | None) -> float | None:
        """IOPS of a volume, `iops` if given; None where they follow the rate (HDD)."""
        included = self.included_iops(size_gib)
        if self.provision_iops_max is None:
            if iops is not None:
                raise UsageError(f"{self.type} IOPS cannot be provisioned: they come with the size")
            return included
        most = min((self.provision_iops_per_gib or math.inf) * size_gib, self.provision_iops_max)
        low, high = self.provision_iops_min or 0.0, max(most, included or 0.0)
        if iops is None:
            return included if included is not None else min(DEFAULT_PROVISIONED_IOPS, high)
        if not low <= iops <= high:
            raise UsageError(
                f"a {size_gib:g}GiB {self.type} disk can have {low:g} to {high:g} IOPS, not {iops:g}"
            )
        return iops

    def rate(
        self, size_gib: float, iops: float | None = None, mib_per_second: float | None = None
    ) -> DiskRate:
        """Sustained rate of a volume; `UsageError` for a size or provisioning that the type does not have."""
        sustained, has_iops = self.sustained(size_gib, iops, mib_per_second)
        return DiskRate(
            type=self.type,
            read_mib_per_second=sustained,
            read_iops=has_iops,
            read_latency_seconds=self.typical_read_latency_ms / 1000,
        )

    def sustained(
        self, size_gib: float, iops: float | None = None, mib_per_second: float | None = None
    ) -> tuple[float, float]:
        """MiB/s and IOPS of `rate`, without the record; raises the same errors."""
        self.require_size(size_gib)
        has_iops = self.provisioned_iops(size_gib, iops)
        rate = self._mib_per_second(size_gib, has_iops, mib_per_second)
        if has_iops is None:
            return rate, rate * 1024 / self.max_io_kib
        return min(rate, has_iops * self.max_io_kib / 1024), has_iops

    def billed(
        self, size_gib: float, iops: float | None = None, mib_per_second: float | None = None
    ) -> tuple[float, float]:
        """IOPS and MiB/s that cost extra: those above what the size includes."""
        included = self.included_iops(size_gib)
        extra_iops = (self.provisioned_iops(size_gib, iops) or 0.0) - (included or 0.0)
        if self.provision_mib_s_max is None:
            return max(0.0, extra_iops), 0.0
        rate = self.mib_s_base if mib_per_second is None else mib_per_second
        # A type that includes IOPS includes its base rate, too.
        extra_rate = rate if included is None else rate - self.mib_s_base
        return max(0.0, extra_iops), max(0.0, extra_rate)

    def _mib_per_second(self, size_gib: float, iops: float | None, mib_per_second: float | None) -> float:
        if mib_per_second is not None:
            return self._provisioned_rate(size_gib, iops or 0.0, mib_per_second)
        sold = self.sold_as(size_gib) if self.sizes else None
        if sold:
            return sold.mib_s
        rate = self.mib_s_base + self.mib_s_per_gib * size_gib
        if self.mib_s_large is not None and size_gib >= (self.mib_s_large_from_gib or 0.0):
            rate = self.mib_s_large
        if self.mib_s_per_provisioned_iops is not None and iops is not None:
            rate = max(rate, self.mib_s_per_provisioned_iops * iops)
        return min(rate, self.mib_s_cap)

    def _provisioned_rate(self, size_gib: float, iops: float, mib_per_second: float) -> float:
        if self.provision_mib_s_max is None:
            raise UsageError(f"{self.type} throughput cannot be provisioned: it is not sold apart")
        low = self.provision_mib_s_min or 0.0
        high = min((self.provision_mib_s_per_iops or math.inf) * iops, self.provision_mib_s_max)
        if not low <= mib_per_second <= high:
            raise UsageError(
                f"a {size_gib:g}GiB {self.type} disk with {iops:g} IOPS can have {low:g} to "
                f"{high:g}MiB/s, not {mib_per_second:g}"
            )
        return mib_per_second


_TEXT_FIELDS = ("type", "media")


def rule_from(row: Mapping[str, str], sizes: Sequence[Mapping[str, str]]) -> DiskRule:
    """The rule in one row of the disk type table, with the type's rows of the table of sizes."""
    values = {
        name: row[name] if name in _TEXT_FIELDS else number_of(row[name])
        for name in DiskRule.__struct_fields__
        if name != "sizes"
    }
    sold = (DiskSize(**{n: number_of(size[n]) for n in DiskSize.__struct_fields__}) for size in sizes)  # type: ignore[arg-type]
    return DiskRule(**values, sizes=tuple(sorted(sold, key=lambda size: size.gib)))  # type: ignore[arg-type]


# "can support maximum performance for 30 minutes at least once every 24 hours"
INSTANCE_BURST_SECONDS = 1800.0
# Azure, "Managed disk bursting": "burst to their maximum burst target for up to 30 minutes"
VOLUME_BURST_SECONDS = 1800.0
# A test would not show a smaller ratio.
_VISIBLE = 1.02


class VolumeBurst(Struct, frozen=True):
    """A full burst bucket of one volume: its rates, and how much it holds.

    `io_credits` are requests (gp2), `mib_credits` MiB (st1, sc1); the other is None. Azure publishes only how
    long a full bucket lasts at full speed (`full_seconds`)."""

    mib_per_second: float
    iops: float
    io_credits: float | None = None
    mib_credits: float | None = None
    full_seconds: float | None = None

    def seconds(self, used: Sequence[float], earned: Sequence[float]) -> float:
        """Seconds that a full bucket lasts at the `used` (MiB/s, IOPS), refilled at the `earned` rates."""
        if self.full_seconds is not None:
            return self.full_seconds
        kind, bucket = (1, self.io_credits or 0.0) if self.mib_credits is None else (0, self.mib_credits)
        return bucket / (used[kind] - earned[kind]) if used[kind] > earned[kind] else math.inf


def volume_burst(
    rule: DiskRule, row: Mapping[str, str], size_gib: float, sustained: DiskRate
) -> VolumeBurst | None:
    """The burst bucket of a volume, from its rule and its row of the type table; None if it never bursts."""
    sold = rule.sold_as(size_gib) if rule.sizes else None
    if sold and sold.burst_iops and sold.burst_mib_s:  # Premium SSD up to P20
        return VolumeBurst(sold.burst_mib_s, sold.burst_iops, full_seconds=VOLUME_BURST_SECONDS)
    if not rule.sizes and row.get("burst_iops_credits"):
        return _io_bucket(row, size_gib, sustained)
    if not rule.sizes and row.get("burst_mib_credits_per_gib"):
        return _mib_bucket(row, size_gib, sustained)
    return None


def burst_on(instance: InstanceType | None, volume: DiskRate, bucket: VolumeBurst | None) -> Burst | None:
    """The burst of a volume on an instance, or alone; None where it is no faster than the lasting rate.

    Each bursts at most at the other's rate, and the burst ends with the first one's credits."""
    always = (volume.read_mib_per_second or math.inf, volume.read_iops or math.inf)
    at_first = (bucket.mib_per_second, bucket.iops) if bucket else always
    limits, limits_at_first = _instance_limits(instance)
    lasting = tuple(map(min, always, limits))
    fast = tuple(map(min, at_first, limits_at_first))
    if not any(new > old * _VISIBLE for new, old in zip(fast, lasting, strict=True)):
        return None
    seconds, causes = math.inf, []
    if bucket and any(new > old for new, old in zip(fast, always, strict=True)):
        seconds, causes = bucket.seconds(fast, always), [volume.type]
    if instance and any(new > old for new, old in zip(fast, limits, strict=True)):
        seconds = min(seconds, INSTANCE_BURST_SECONDS)
        causes.append(instance.name)
    return Burst(read_mib_per_second=fast[0], read_iops=fast[1], seconds=seconds, causes=tuple(causes))


def _io_bucket(row: Mapping[str, str], size_gib: float, rate: DiskRate) -> VolumeBurst | None:
    """The bucket of gp2 below 1,000 GiB: 3,000 IOPS; 128 MiB/s up to 170 GiB, 250 above."""
    iops = float(row["burst_iops"])
    if (rate.read_iops or 0.0) >= iops:
        return None
    large = size_gib > float(row["burst_mib_s_large_above_gib"])
    mib_per_second = float(row["burst_mib_s_large" if large else "burst_mib_s_base"])
    return VolumeBurst(mib_per_second, iops, io_credits=float(row["burst_iops_credits"]))


def _mib_bucket(row: Mapping[str, str], size_gib: float, rate: DiskRate) -> VolumeBurst | None:
    """The bucket of st1 and sc1: 250 and 80 MiB/s per TiB, up to 500 and 250; it holds one scan."""
    cap = float(row["burst_mib_s_cap"])
    mib_per_second = min(float(row["burst_mib_s_per_gib"]) * size_gib, cap)
    if mib_per_second <= (rate.read_mib_per_second or 0.0):
        return None
    mib_credits = float(row["burst_mib_credits_per_gib"]) * size_gib
    return VolumeBurst(mib_per_second, mib_per_second, mib_credits=mib_credits)


def _instance_limits(instance: InstanceType | None) -> tuple[tuple[float, float], tuple[float, float]]:
    """An instance's limits in (MiB/s, IOPS): those that last, and those of its burst."""
    if instance is None:
        return (math.inf, math.inf), (math.inf, math.inf)
    mib_per_second = instance.ebs_baseline_mib_per_second or math.inf
    iops = instance.ebs_baseline_iops or math.inf
    return (mib_per_second, iops), (
        max(mib_per_second, instance.ebs_burst_mib_per_second or 0.0),
        max(iops, instance.ebs_burst_iops or 0.0),
    )
