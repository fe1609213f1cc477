"""What a sweep calls the GPU of an instance type."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.domain import InstanceType
from advisor.domain.results import CUDA
from advisor.errors import UsageError

_NOT_NVIDIA = ("Gaudi", "Radeon")


def accelerator_of(instance: InstanceType, catalog: Catalog) -> str:
    """`cuda:T4`, so that rows of several GPUs are told apart, and as a Ray cluster names it; the
    memory goes with it where the cloud has the chip in several sizes (`cuda:A100-40GB`). `cpu`
    where the type has no GPU; `UsageError` for accelerators that trials do not run on."""
    if instance.gpu_name is None:
        return "cpu"
    if instance.gpu_name.startswith(_NOT_NVIDIA):
        raise UsageError(
            f"{instance.name} has a {instance.gpu_name}, and trials run on NVIDIA GPUs (and CPUs); "
            "take another --instance"
        )
    chip, memory = _parts(instance.gpu_name)
    sizes = {
        size
        for one in catalog.instances(instance.cloud)
        if one.gpu_name
        for other, size in [_parts(one.gpu_name)]
        if other == chip
    }
    return f"{CUDA}:{chip}-{memory}" if len(sizes) > 1 else f"{CUDA}:{chip}"


def _parts(name: str) -> tuple[str, str]:
    """'A100-SXM4-40GB' -> 'A100' and '40GB'; a name without that is the chip's."""
    chip, *rest = name.upper().split("-")
    return chip, next((part for part in rest if part.endswith("GB")), "")
