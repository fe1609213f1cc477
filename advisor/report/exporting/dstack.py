"""A dstack task configuration for a spec."""

from __future__ import annotations

import math
from typing import Any

from advisor.domain import Candidate
from advisor.report.exporting.parts import header, is_spot

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
        "resources": {"disk": f"{size}GB.."},
    }
    remark = ""
    if disk.price is not None:
        remark = f"# dstack chooses the disk's type; {disk.choice} is what the rate stands on.\n"
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(candidate) + remark + text
