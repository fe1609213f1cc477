"""Which of Google's SKUs make up a machine type, and how much of each.

Google prices cores, memory, GPUs and local SSD apart. Names of SKUs are as recalled from its public
list and were never compared with it; which of them make up a type holds for the bundled prices of
all types of these families, on demand and on spot, to four digits (`tests/infra/live/test_gcp.py`).
What is not in these tables has no price here: M1, M2 and M4 pay premiums, shared cores a share,
and the SKUs of C4N, N4A and N4D are not known.
"""

from __future__ import annotations

from msgspec import Struct

from advisor.domain import InstanceType

_CORES_AND_MEMORY = {
    "a2": "A2 Instance",
    "a3-highgpu": "A3 Instance",
    "a3-megagpu": "A3Plus Instance",
    "a3-ultragpu": "A3Ultra Instance",
    "c2": "Compute optimized",
    "c2d": "C2D AMD Instance",
    "c3": "C3 Instance",
    "c3d": "C3D Instance",
    "c4": "C4 Instance",
    "c4a": "C4A Arm Instance",
    "c4d": "C4D Instance",
    "e2": "E2 Instance",
    "g2": "G2 Instance",
    "g4": "G4 Instance",
    "h3": "H3 Instance",
    "m3": "M3 Memory-optimized Instance",
    "n1": "N1 Predefined Instance",
    "n2": "N2 Instance",
    "n2d": "N2D AMD Instance",
    "n4": "N4 Instance",
    "t2a": "T2A Arm Instance",
    "t2d": "T2D AMD Instance",
    "z3": "Z3 Instance",
}
# By data sheet. The H100 of a3-megagpu is sold under a name of its own, which the list has changed.
_GPUS = {
    "A100-SXM4-40GB": ("Nvidia Tesla A100 GPU",),
    "A100-SXM4-80GB": ("Nvidia Tesla A100 80GB GPU",),
    "H100-SXM5-80GB": ("Nvidia H100 80GB GPU",),
    "H200-SXM-141GB": ("H200 141GB GPU",),
    "L4": ("Nvidia L4 GPU",),
    "P4": ("Nvidia Tesla P4 GPU",),
    "P100-PCIE-16GB": ("Nvidia Tesla P100 GPU",),
    "RTX PRO 6000 Blackwell Server": ("RTX 6000 96GB",),
    "T4": ("Nvidia Tesla T4 GPU",),
    "V100-SXM2-16GB": ("Nvidia Tesla V100 GPU",),
}
_MEGA_GPU = ("Nvidia H100 80GB Mega GPU", "Nvidia H100 80GB Plus GPU")
_LOCAL_SSD = {"c4": "C4 Instance Local SSD", "c4a": "C4A Instance Local SSD", "c4d": "C4D Instance Local SSD"}
_GENERIC_LOCAL_SSD = "SSD backed Local Storage"


class Part(Struct, frozen=True):
    """So much of a SKU, under the first of its names that the list has; `unit` is an hour of one
    (`h`), or of a GiB (`GiBy.h`)."""

    names: tuple[str, ...]
    unit: str
    amount: float


def parts(machine: InstanceType) -> tuple[Part, ...]:
    """What a machine type is made of; nothing where that is not known."""
    family = machine.name.split("-")[0]
    series = "-".join(machine.name.split("-")[:2])
    host = _CORES_AND_MEMORY.get(series) or _CORES_AND_MEMORY.get(family)
    gpu = _MEGA_GPU if series == "a3-megagpu" else _GPUS.get(machine.gpu_name or "")
    if host is None or machine.burstable or (machine.gpu_name and gpu is None):
        return ()
    found = [
        Part((f"{host} Core",), "h", machine.vcpus),
        Part((f"{host} Ram",), "GiBy.h", machine.memory_mib / 1024),
    ]
    if gpu:
        found.append(Part(gpu, "h", machine.gpu_count * machine.gpu_fraction))
    if machine.instance_store_gib:
        disk = _LOCAL_SSD.get(family, _GENERIC_LOCAL_SSD)
        found.append(Part((disk,), "GiBy.h", machine.instance_store_gib))
    return tuple(found)


SKU_NAMES = frozenset(
    {f"{host} {part}" for host in _CORES_AND_MEMORY.values() for part in ("Core", "Ram")}
    | {name for names in (*_GPUS.values(), _MEGA_GPU) for name in names}
    | {*_LOCAL_SSD.values(), _GENERIC_LOCAL_SSD}
)
