"""An instance with a disk, in the words a performance model speaks."""

from __future__ import annotations

from advisor.catalog.catalog import Catalog
from advisor.domain import Disk, InstanceType, Offer, Resources


def used_gpus(instance: InstanceType, max_gpus: int | None = None) -> int:
    """How many of its GPUs work: all, `max_gpus` at most; shares of a GPU count as one."""
    whole = instance.gpu_count if instance.gpu_fraction == 1 else 1
    return max(1, min(whole, max_gpus or whole))


def resources_of(
    catalog: Catalog, target: Offer | InstanceType, disk: Disk, max_gpus: int | None = None
) -> Resources:
    """What a workload on this instance and disk has: all of its vCPUs, and its GPUs, or
    `max_gpus` of them."""
    instance = target.instance if isinstance(target, Offer) else target
    return Resources(
        vcpus=instance.vcpus,
        physical_cores=instance.physical_cores,
        memory_mib=instance.memory_mib,
        disk=disk.rate,
        cpu=instance.cpu,
        gpu=catalog.gpu_of(instance),
        host_to_gpu_gb_per_second=instance.host_to_gpu_gb_per_second,
        gpu_count=used_gpus(instance, max_gpus),
    )
