"""Whether an image serves: for what it costs by itself, for the CPU and the GPU of a type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.catalog import load_catalog
from advisor.domain import InstanceType
from infra.aws.findings import Finding, missing

_FREE = "Linux/UNIX"
# NVIDIA's open kernel modules, which AWS's images have, drive Turing and newer GPUs alone (AWS
# DLAMI release notes: G4dn and newer; aws-parallelcluster issue 6014: not P2, P3, G2, G3).
_OLDEST_OPEN_DRIVER = 7.5


def unfit(row: Mapping[str, Any], types: Sequence[InstanceType], *, named: bool) -> Finding | None:
    """Why the image (an item of `Images`) does not serve the types; None where it does. `named`:
    it is a user's own choice, and the user knows its driver."""
    name, wanted = row["ImageId"], types[0]
    extra = row.get("PlatformDetails", _FREE)
    if extra != _FREE or row.get("ProductCodes"):
        return missing(
            "image", f"{name} ({extra}) is billed by the hour on top, which no budget counts",
            "give one of plain Linux with --image",
        )  # fmt: skip
    needed = wanted.cpu.architecture
    made_for = row.get("Architecture", needed)
    if made_for != needed:
        return missing(
            "image", f"{name} is made for {made_for}, and {wanted.name} is {needed}",
            f"give one for {needed} with --image",
        )  # fmt: skip
    capability = load_catalog().capability_of(wanted.gpu_name)
    if not named and capability is not None and capability < _OLDEST_OPEN_DRIVER:
        return missing(
            "image", f"the driver of AWS's image does not know the {wanted.gpu_name} of "
            f"{wanted.name}", "give one with a proprietary driver of branch 580 with --image",
        )  # fmt: skip
    return None
