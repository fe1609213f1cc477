"""Facts of Azure's sizes: GPU sizes from two sources that agree, all other sizes from their names.

Standard_E16-4ads_v5: family E, 16 vCPUs of which 4 are active, features (a: AMD, d: temporary disk, s:
premium storage), version. `azure_series.csv` has the facts of a series (Ea_v5, without features that change
no fact). What no file states stays empty, and such a size is not ranked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from advisor.catalog.assumed import LOCAL_READ_IOPS_PER_GB, NETWORK_LIMIT, SERIES, SERIES_CORES
from advisor.infra.build.catalog.azure.prices import GPU_SIZES, SIZES
from advisor.infra.build.catalog.hosts import UNNAMED, gpu_families, sheet_gib
from advisor.infra.build.catalog.tables import number, read_source

Row = Mapping[str, str]
_NAME = re.compile(r"^Standard_([A-Z]+?)(\d+)(?:-(\d+))?([a-z]*)((?:_[A-Za-z0-9]+)*)$")
_CARD = re.compile(r"_([A-Z]{1,6}\d{1,4}[A-Z]*)(?:_v\d+)?$")
_VERSION = re.compile(r"_v\d+$")
# Temporary disk, premium storage, isolated, block storage, RDMA: none changes vCPUs, RAM or CPU.
_NO_FACT = str.maketrans("", "", "dsibr")
# Old series in which the number is not the vCPU count.
_NUMBERED = ("D", "DS", "G", "GS")
_AMD = ("MI300X", "V620", "V710", "MI25")
# Listed with one A10; name, price and RAM imply two for the first, half of one for the second.
_DOUBTED = ("Standard_NC32ads_A10_v4", "Standard_NC8ads_A10_v4")
_FPGA = "Alveo U250"
# No GPU size with published limits has less than this per vCPU, except the largest (ND).
ASSUMED_IOPS_PER_VCPU = 6400 / 6
ASSUMED_MB_S_PER_VCPU = 100 / 6
MOST_ASSUMED_IOPS, MOST_ASSUMED_MB_S = 80000.0, 1200.0
# IOPS and MB/s.
Limits = tuple[float, float]


class SizeName(NamedTuple):
    """The parts of a size's name. `whole` is the vCPU count that RAM and limits follow, `vcpus` the active
    ones."""

    series: str
    whole: int
    vcpus: int
    premium: bool


def parsed(size: str) -> SizeName | None:
    """The parts of a name; None if it does not follow the pattern."""
    match = _NAME.match(size)
    if match is None:
        return None
    family, whole, fewer, features, rest = match.groups()
    version = _VERSION.search(rest)
    if family.startswith("N"):
        card = _CARD.search(rest)
        parts = (family, card.group(1) if card else "", version.group()[1:] if version else "v1")
        series = "_".join(part for part in parts if part)
    else:
        series = family + features.translate(_NO_FACT) + (version.group() if version else "")
    return SizeName(series, int(whole), int(fewer or whole), "s" in features)


def cpu_size(size: str) -> dict[str, str]:
    """Columns of a size without GPUs."""
    name = parsed(size)
    row = {"instance_type": size, "gpu_count": "0", "current": "1", "source": SIZES.id}
    if name is None:
        return row
    known = _series().get(name.series)
    if known is None:
        numbered = name.series.partition("_")[0] in _NUMBERED
        return row | ({} if numbered else {"vcpus": str(name.vcpus)})
    facts = row | _cpu(name, known) | _assumed_limits(name.whole)
    memory = _gib(name, known)
    if known["nvme_gb_per_vcpu"]:
        facts |= _nvme(float(known["nvme_gb_per_vcpu"]) * name.whole)
        facts["instance_store_read_iops"] = f"{float(known['nvme_iops_per_vcpu']) * name.whole:.0f}"
    return facts | {
        "memory_mib": str(round(memory * 1024)) if memory else "",
        "assumed": f"{NETWORK_LIMIT} {SERIES}",
    }


def gpu_size(size: str, told: Row | None) -> dict[str, str]:
    """Columns of a GPU size; taken from its name if no source describes it."""
    name = parsed(size)
    card = _CARD.search(size)
    sheet = gpu_families().get(("azure", name.series), {}).get("sheet") if name else None
    named = sheet or (card.group(1) if card else (told or {}).get("gpu")) or UNNAMED
    row = {
        "instance_type": size,
        "gpu_vendor": "AMD" if named in _AMD else "NVIDIA",
        "gpu_name": named,
        "current": "1",
        "source": GPU_SIZES.id,
    }
    known = _series().get(name.series) if name else None
    assumed = []
    if name and known:
        row |= _cpu(name, known)
        assumed.append(SERIES_CORES)
    if told is None:
        return row
    vcpus = int(told["vcpus"])
    row |= {"vcpus": str(vcpus), "memory_mib": str(round(float(told["memory_gib"]) * 1024))}
    published = _published(told)
    if published is None:
        assumed.append(NETWORK_LIMIT)
    row |= _limits(*published) if published else _assumed_limits(vcpus, name.series if name else "")
    if told["nvme_gb"]:
        row |= _nvme(float(told["nvme_gb"]))
        assumed.append(LOCAL_READ_IOPS_PER_GB)
    elif told["temp_disk_gb"]:
        row |= {"instance_store_gb": told["temp_disk_gb"], "instance_store_nvme": "0"}
    return row | _gpus(size, told, sheet) | {"assumed": " ".join(assumed)}


def takes_premium(size: str) -> bool:
    """True if a size supports Premium SSD and Ultra disks; other sizes support only standard disks."""
    name = parsed(size)
    return name is None or name.premium


@cache
def told_gpu_sizes() -> dict[str, dict[str, str]]:
    """GPU sizes by name, as the sources describe them."""
    return {row["instance_type"]: row for row in read_source("sparecores/azure_gpu_sizes.csv")}


def _gpus(size: str, told: Row, sheet: str | None) -> dict[str, str]:
    """GPU count and share of a size; empty if they are not known for sure."""
    count = told["gpu_count"]
    if count == "0" and not told["gpu"]:
        return {"gpu_count": "0", "gpu_name": "", "gpu_vendor": "", "accelerator": _FPGA}
    if size in _DOUBTED or not told["gpu"]:
        return {}
    part, _, of = count.partition("/")
    share = int(part) / int(of) if of else 1.0
    gib = sheet_gib()[sheet] if sheet else float(told["gpu_memory_gb"])
    return {
        "gpu_count": "1" if of else count,
        "gpu_fraction": number(str(share)),
        "gpu_memory_mib": str(round(gib * 1024 * share)),
    }


def _cpu(name: SizeName, known: Row) -> dict[str, str]:
    return {
        "vcpus": str(name.vcpus),
        "physical_cores": str(max(1, name.vcpus // int(known["threads_per_core"]))),
        "cpu_architecture": known["cpu_architecture"],
        "cpu_manufacturer": known["cpu_maker"],
        "burstable": known["shared"],
    }


def _gib(name: SizeName, known: Row) -> float | None:
    """RAM in GiB: a fixed amount per vCPU, up to the host's RAM."""
    most = float(known["most_gib"] or "inf")
    if name.whole > float(known["most_vcpus"] or "inf"):
        return None
    if not known["gib_per_vcpu"]:
        return most if known["most_gib"] else None
    return min(float(known["gib_per_vcpu"]) * name.whole, most)


def _published(told: Row) -> Limits | None:
    """Published uncached limits to network disks, if any."""
    iops, mb_s = told["uncached_iops"], told["uncached_mb_per_s"]
    return (float(iops), float(mb_s)) if iops and mb_s else None


def _assumed_limits(vcpus: int, series: str = "") -> dict[str, str]:
    """Limits assumed per vCPU, at least those published for a smaller size of the series."""
    iops = min(ASSUMED_IOPS_PER_VCPU * vcpus, MOST_ASSUMED_IOPS)
    mb_s = min(ASSUMED_MB_S_PER_VCPU * vcpus, MOST_ASSUMED_MB_S)
    for told in told_gpu_sizes().values():
        name, limits = parsed(told["instance_type"]), _published(told)
        if limits and name and name.series == series and int(told["vcpus"]) <= vcpus:
            iops, mb_s = max(iops, limits[0]), max(mb_s, limits[1])
    return _limits(iops, mb_s)


def _limits(iops: float, mb_s: float) -> dict[str, str]:
    return {"ebs_baseline_iops": f"{iops:.0f}", "ebs_baseline_mbps": _mbps(mb_s)}


def _mbps(mb_s: float) -> str:
    """Convert MB/s of 10**6 bytes into the types table's Mbit/s of 10**6 bits."""
    return f"{8 * mb_s:.6g}"


def _nvme(gb: float) -> dict[str, str]:
    return {"instance_store_gb": f"{gb:g}", "instance_store_nvme": "1"}


@cache
def _series() -> dict[str, dict[str, str]]:
    return {row["series"]: row for row in read_source("catalog/azure_series.csv")}


def is_gpu_size(size: str) -> bool:
    """True if a size is of a family with GPUs or other accelerators."""
    return size.startswith("Standard_N")


def limited_to_standard(sizes: Iterable[str]) -> list[tuple[str, str, str, str]]:
    """Rows for the table of limits: sizes that support only standard disks, at the disks' usual limits."""
    types = ("standard-hdd", "standard-ssd")
    return [(size, kind, "", "") for size in sizes if not takes_premium(size) for kind in types]
