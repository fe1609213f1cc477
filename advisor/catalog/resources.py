"""An instance with a disk, in the words a performance model speaks."""

from __future__ import annotations

from advisor.catalog.catalog import Catalog
from advisor.domain import Disk, InstanceType, Offer, Resources


def resources_of(catalog: Catalog, target: Offer | InstanceType, disk: Disk) -> Resources:
    """What a workload on this instance and disk has: one of its GPUs, all of its vCPUs."""
    instance = target.instance if isinstance(target, Offer) else target
    return Resources(
        vcpus=instance.vcpus,
        physical_cores=instance.physical_cores,
        memory_mib=instance.memory_mib,
        disk=disk.rate,
        cpu=instance.cpu,
        gpu=catalog.gpu_of(instance),
        host_to_gpu_gb_per_second=instance.host_to_gpu_gb_per_second,
    )
