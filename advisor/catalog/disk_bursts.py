"""What a volume lends at first: its bucket, alone and on an instance that lends something too.

gp2, st1 and sc1 of AWS and the smaller Premium SSDs of Azure are faster while burst credits last,
and so are small instances. Credits never enter an answer's rates; `Burst` tells what they lend, so
that a short test can be told from what lasts. Rules: EC2 User Guide, `general-purpose.md`,
`hdd-vols.md` and `ebs-optimized.md`; Azure, `disk-storage-premium-ssd-sizes.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from advisor.catalog.disk_rules import DiskRule, DiskSize
from advisor.domain import Burst, DiskRate, InstanceType

# "can support maximum performance for 30 minutes at least once every 24 hours"
INSTANCE_BURST_SECONDS = 1800.0
# Azure, "Managed disk bursting": "burst to their maximum burst target for up to 30 minutes"
VOLUME_BURST_SECONDS = 1800.0
# Less than this is no difference that a test would show.
_VISIBLE = 1.02


class VolumeBurst(Struct, frozen=True, kw_only=True):
    """A full bucket of one volume: limits while it lasts, and what it holds.

    `io_credits` are single requests (gp2), `mib_credits` MiB (st1, sc1); the others are None.
    Of Azure's disks it is documented how long a full bucket lasts at full speed, and no more.
    """

    mib_per_second: float
    iops: float
    io_credits: float | None = None
    mib_credits: float | None = None
    full_seconds: float | None = None

    def seconds(self, used: tuple[float, float], earned: tuple[float, float]) -> float:
        """How long a full bucket lasts at `used` (MiB/s, IOPS), refilled at the `earned` ones."""
        if self.full_seconds is not None:
            return self.full_seconds
        if self.mib_credits is not None:
            return _lasting(self.mib_credits, used[0], earned[0])
        return _lasting(self.io_credits or 0.0, used[1], earned[1])


def volume_burst(
    rule: DiskRule, row: Mapping[str, str], size_gib: float, sustained: DiskRate
) -> VolumeBurst | None:
    """The bucket of a volume by its rule and its row of the disk type table; None for one that
    never bursts."""
    if rule.sizes:
        return _size_bucket(rule.sold_as(size_gib))
    if row.get("burst_iops_credits"):
        return _io_bucket(row, size_gib, sustained)
    if row.get("burst_mib_credits_per_gib"):
        return _mib_bucket(row, size_gib, sustained)
    return None


def burst_on(instance: InstanceType | None, volume: DiskRate, bucket: VolumeBurst | None) -> Burst | None:
    """What the volume reads on the instance at first (alone, where there is none), if more.

    A burst of one is held to what the other passes on, and ends when the first one's credits do.
    """
    always = (volume.read_mib_per_second or math.inf, volume.read_iops or math.inf)
    at_first = (bucket.mib_per_second, bucket.iops) if bucket else always
    passed, passed_at_first = _passed_on(instance)
    lasting = _lower(always, passed)
    fast = _lower(at_first, passed_at_first)
    if not any(new > old * _VISIBLE for new, old in zip(fast, lasting, strict=True)):
        return None
    seconds, causes = math.inf, []
    if bucket and any(new > old for new, old in zip(fast, always, strict=True)):
        seconds, causes = bucket.seconds(fast, always), [volume.type]
    if instance and any(new > old for new, old in zip(fast, passed, strict=True)):
        seconds = min(seconds, INSTANCE_BURST_SECONDS)
        causes.append(instance.name)
    return Burst(read_mib_per_second=fast[0], read_iops=fast[1], seconds=seconds, causes=tuple(causes))


def _size_bucket(size: DiskSize | None) -> VolumeBurst | None:
    """Premium SSD up to P20: 3,500 IOPS and 170 MB/s for 30 minutes."""
    if size is None or size.burst_iops is None or size.burst_mib_s is None:
        return None
    return VolumeBurst(
        mib_per_second=size.burst_mib_s, iops=size.burst_iops, full_seconds=VOLUME_BURST_SECONDS
    )


def _io_bucket(row: Mapping[str, str], size_gib: float, rate: DiskRate) -> VolumeBurst | None:
    """gp2 below 1,000 GiB: 3,000 IOPS; up to 170 GiB 128 MiB/s, above 250."""
    iops = float(row["burst_iops"])
    if (rate.read_iops or 0.0) >= iops:
        return None
    large = size_gib > float(row["burst_mib_s_large_above_gib"])
    mib_per_second = float(row["burst_mib_s_large" if large else "burst_mib_s_base"])
    return VolumeBurst(mib_per_second=mib_per_second, iops=iops, io_credits=float(row["burst_iops_credits"]))


def _mib_bucket(row: Mapping[str, str], size_gib: float, rate: DiskRate) -> VolumeBurst | None:
    """st1 250 and sc1 80 MiB/s a TiB, up to 500 and 250; the bucket holds one scan."""
    cap = float(row["burst_mib_s_cap"])
    mib_per_second = min(float(row["burst_mib_s_per_gib"]) * size_gib, cap)
    if mib_per_second <= (rate.read_mib_per_second or 0.0):
        return None
    return VolumeBurst(
        mib_per_second=mib_per_second,
        iops=mib_per_second,
        mib_credits=float(row["burst_mib_credits_per_gib"]) * size_gib,
    )


def _passed_on(instance: InstanceType | None) -> tuple[tuple[float, float], tuple[float, float]]:
    """(MiB/s, IOPS) an instance passes on for ever, and at first."""
    if instance is None:
        return (math.inf, math.inf), (math.inf, math.inf)
    mib_per_second = instance.ebs_baseline_mib_per_second or math.inf
    iops = instance.ebs_baseline_iops or math.inf
    return (mib_per_second, iops), (
        max(mib_per_second, instance.ebs_burst_mib_per_second or 0.0),
        max(iops, instance.ebs_burst_iops or 0.0),
    )


def _lower(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return min(one[0], other[0]), min(one[1], other[1])


def _lasting(credits: float, used: float, earned: float) -> float:
    return credits / (used - earned) if used > earned else math.inf
