"""A SkyPilot task for a spec."""

from __future__ import annotations

import math
from typing import Any

from advisor.domain import Candidate, Disk
from advisor.render.exporting.parts import header, is_spot

CLOUDS = ("aws", "gcp", "azure")
# SkyPilot puts the data on the boot disk, beside the system and the driver.
_SYSTEM_GIB = 50
# (tier, IOPS, MiB/s) on AWS, slowest first: skypilot `sky/clouds/aws.py`, `_get_disk_specs`.
_AWS_TIERS = (("medium", 3500, 218), ("high", 7000, 437), ("ultra", 20000, 4000))


def task(candidate: Candidate) -> str:
    """The `resources` of a task; `setup` and `run` are the user's."""
    import yaml

    offer, disk = candidate.spec.offer, candidate.spec.disk
    resources: dict[str, Any] = {
        "infra": f"{offer.instance.cloud}/{offer.region}",
        "instance_type": offer.instance.name,
        "use_spot": is_spot(candidate),
    }
    remark = ""
    if disk.price is not None:
        resources["disk_size"] = math.ceil(disk.size_gib) + _SYSTEM_GIB
        if offer.instance.cloud == "aws":
            resources["disk_tier"], remark = _tier(disk)
    nodes = {"num_nodes": candidate.spec.count} if candidate.spec.count > 1 else {}
    text: str = yaml.safe_dump({**nodes, "resources": resources}, sort_keys=False)
    return header(candidate) + remark + text


def _tier(disk: Disk) -> tuple[str, str]:
    """The slowest tier that reads as fast, and what to say where none does, or all are faster."""
    iops, rate = disk.rate.read_iops or 0, disk.rate.read_mib_per_second or 0
    for name, tier_iops, tier_rate in _AWS_TIERS:
        if iops <= tier_iops and rate <= tier_rate:
            return name, f"# disk_tier {name} stands for {disk.choice}; its price differs.\n"
    name = _AWS_TIERS[-1][0]
    return name, f"# No tier of SkyPilot reaches {disk.choice}: {name} is the fastest.\n"
