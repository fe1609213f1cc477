"""A dstack task configuration for a spec."""

from __future__ import annotations

import math
from typing import Any

from advisor.domain import Candidate, InstanceType
from advisor.render.exporting.parts import header, is_spot

CLOUDS = ("aws", "gcp", "azure")
# dstack puts the data on the boot disk, beside the system and the image.
_SYSTEM_GIB = 100


def configuration(candidate: Candidate) -> str:
    """A task that shows the GPU (or the CPUs); its `commands` are the user's to replace."""
    import yaml

    offer, disk = candidate.spec.offer, candidate.spec.disk
    size = _SYSTEM_GIB + (math.ceil(disk.size_gib) if disk.price is not None else 0)
    document: dict[str, Any] = {
        "type": "task",
        "name": "advised",
        **({"nodes": candidate.spec.count} if candidate.spec.count > 1 else {}),
        "commands": ["nvidia-smi" if offer.instance.gpu_name else "lscpu"],
        "backends": [offer.instance.cloud],
        "regions": [offer.region],
        "instance_types": [offer.instance.name],
        "spot_policy": "spot" if is_spot(candidate) else "on-demand",
        "resources": {**_machine(offer.instance), "disk": f"{size}GB.."},
    }
    remark = ""
    if disk.price is not None:
        remark = f"# dstack chooses the disk's type; {disk.choice} is what the rate stands on.\n"
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(candidate) + remark + text


def _machine(instance: InstanceType) -> dict[str, str]:
    """Where nothing is said dstack wants x86, 2 vCPUs and 8 GB, and finds no smaller type."""
    arm = "arm:" if instance.cpu.architecture == "arm64" else ""
    return {"cpu": f"{arm}{instance.vcpus}..", "memory": f"{instance.memory_mib / 1024:g}GB.."}
