"""Disks inside the host: part of the instance's price, empty after a stop."""

from __future__ import annotations

from advisor.domain import Disk, DiskChoice, DiskRate, InstanceType
from advisor.errors import UsageError

LOCAL = "instance_store"
# Space beside the data set, for checkpoints, shuffled copies and the file system itself.
HEADROOM = 1.2
# Local disks are known by their random 4 KiB reads alone; IOPS x 4 KiB is a floor of what
# larger reads reach.
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
            f"how fast {instance.name} reads its local disk is not known; use a network disk "
            "such as gp3"
        )
    if not 0 < size_gib <= has:
        raise UsageError(f"{instance.name} has {has:.0f}GiB of local disk, not {size_gib:g}GiB")
    rate = DiskRate(
        type=LOCAL,
        read_mib_per_second=iops * _IO_KIB / 1024,
        read_iops=iops,
        read_latency_seconds=_LATENCY_SECONDS,
    )
    return Disk(rate=rate, choice=DiskChoice(type=LOCAL), size_gib=has, binding_limit="volume")


def local_if_it_fits(instance: InstanceType, dataset_gib: float) -> Disk | None:
    """The local disk, where it is large enough and its rate is known."""
    has, needed = instance.instance_store_gib, dataset_gib * HEADROOM
    if instance.instance_store_read_iops is None or not 0 < needed <= has:
        return None
    return local_disk(instance, needed)
