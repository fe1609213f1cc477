"""Facts of the machine that decide whether two measurements may be compared."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from advisor.domain import Cpu
from advisor.sweeps.machine.size import machine_size, physical_cores, total_memory_mib

_DMI = Path("/sys/devices/virtual/dmi/id")
_INDICATIVE_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "neon", "sve")


def describe_machine() -> dict[str, Any]:
    """CPU, memory, kernel and Python of this machine, and what a container leaves of it; needs no package."""
    info = _cpuinfo()
    return {
        "cpu_model": cpu_model(),
        "cpu_family": info.get("cpu family", ""),
        "cpu_flags": [flag for flag in _INDICATIVE_FLAGS if flag in info.get("flags", "").split()],
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "physical_cores": physical_cores(),
        "memory_mib": total_memory_mib(),
        **describe_container(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "host": platform.node(),
        **({"instance_type": name} if (name := instance_type()) else {}),
    }


def describe_container() -> dict[str, Any]:
    """The part of the machine that the cgroups around this process leave to it; None: no quota, no limit."""
    size = machine_size()
    return {
        "usable_cpus": len(size.cpus),
        "cpu_quota": size.cpu_quota,
        "memory_limit_mib": size.memory_limit_mib,
    }


def instance_type(dmi: Path = _DMI) -> str | None:
    """The type that an EC2 instance's firmware names (Nitro); None elsewhere."""
    try:
        vendor = (dmi / "sys_vendor").read_text().strip()
        return (dmi / "product_name").read_text().strip() if vendor == "Amazon EC2" else None
    except OSError:
        return None


def describe_versions(*packages: str) -> dict[str, str]:
    """Versions of installed packages; what is not installed is left out."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def local_cpu() -> Cpu:
    """This machine's CPU as a record, so that trials of different machines differ."""
    return Cpu(model=cpu_model(), architecture=platform.machine())


def cpu_model() -> str:
    """The CPU's name as the kernel has it."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in rows}
