"""SkyPilot and dstack: what starts a spec on several clouds."""

from __future__ import annotations

import math
from typing import Any

from advisor.domain import Disk, InstanceType
from advisor.render.export.parts import NO_PLACEMENT_GROUP, Start, header, is_spot

CLOUDS = ("aws", "gcp", "azure")
# SkyPilot puts the data on the boot disk, beside the system and the driver.
_SYSTEM_GIB = 50
# (tier, IOPS, MiB/s) on AWS, slowest first: skypilot `sky/clouds/aws.py`, `_get_disk_specs`.
_AWS_TIERS = (("medium", 3500, 218), ("high", 7000, 437), ("ultra", 20000, 4000))


def skypilot_task(start: Start) -> str:
    """The `resources` of a skypilot_task; `setup` and `run` are the user's."""
    import yaml

    offer, disk = start.spec.offer, start.spec.disk
    resources: dict[str, Any] = {
        "infra": f"{offer.instance.cloud}/{offer.region}",
        "instance_type": offer.instance.name,
        "use_spot": is_spot(start),
    }
    remark = ""
    if disk.price is not None:
        resources["disk_size"] = math.ceil(disk.size_gib) + _SYSTEM_GIB
        if offer.instance.cloud == "aws":
            resources["disk_tier"], remark = _tier(disk)
    nodes = {"num_nodes": start.spec.count} if start.spec.count > 1 else {}
    remark += NO_PLACEMENT_GROUP if start.network else ""
    text: str = yaml.safe_dump({**nodes, "resources": resources}, sort_keys=False)
    return header(start) + remark + text + _run_block(start)


def _run_block(start: Start) -> str:
    """`run` as a block of lines, which PyYAML would fold and quote."""
    return "".join(["run: |\n", *(f"  {line}\n" for line in start.run)]) if start.run else ""


def _tier(disk: Disk) -> tuple[str, str]:
    """The slowest tier that reads as fast, and what to say where none does, or all are faster."""
    iops, rate = disk.rate.read_iops or 0, disk.rate.read_mib_per_second or 0
    for name, tier_iops, tier_rate in _AWS_TIERS:
        if iops <= tier_iops and rate <= tier_rate:
            return name, f"# disk_tier {name} stands for {disk.choice}; its price differs.\n"
    name = _AWS_TIERS[-1][0]
    return name, f"# No tier of SkyPilot reaches {disk.choice}: {name} is the fastest.\n"


# dstack puts the data on the boot disk, beside the system and the image.
_DSTACK_SYSTEM_GIB = 100


def dstack_task(start: Start) -> str:
    """A task that shows the GPU (or the CPUs); its `commands` are the user's to replace."""
    import yaml

    offer, disk = start.spec.offer, start.spec.disk
    size = _DSTACK_SYSTEM_GIB + (math.ceil(disk.size_gib) if disk.price is not None else 0)
    document: dict[str, Any] = {
        "type": "task",
        "name": "advised",
        **({"nodes": start.spec.count} if start.spec.count > 1 else {}),
        "commands": list(start.run) or ["nvidia-smi" if offer.instance.gpu_name else "lscpu"],
        "backends": [offer.instance.cloud],
        "regions": [offer.region],
        "instance_types": [offer.instance.name],
        "spot_policy": "spot" if is_spot(start) else "on-demand",
        "resources": {**_machine(offer.instance), "disk": f"{size}GB.."},
    }
    remark = ""
    if disk.price is not None:
        remark = f"# dstack chooses the disk's type; {disk.choice} is what the rate stands on.\n"
    remark += NO_PLACEMENT_GROUP if start.network else ""
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(start) + remark + text


def _machine(instance: InstanceType) -> dict[str, str]:
    """The machine in dstack's words; without them it wants x86, 2 vCPUs and 8 GB, and finds no smaller
    type."""
    arm = "arm:" if instance.cpu.architecture == "arm64" else ""
    return {"cpu": f"{arm}{instance.vcpus}..", "memory": f"{instance.memory_mib / 1024:g}GB.."}
