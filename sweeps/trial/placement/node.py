"""What a node has for trials: physical cores and GPUs, each with its NUMA node.

CPUs are read from sysfs (kernel: ABI/stable/sysfs-devices-system-cpu, -node), GPUs from NVIDIA's
driver (/proc/driver/nvidia/gpus, in the order of PCI addresses, as NVML counts them).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeps.machine.size import allowed_cpus
from sweeps.trial.limits.choosing import read_cores

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
_CPUS = Path("/sys/devices/system/cpu")
_DRIVER = Path("/proc/driver/nvidia/gpus")
_PCI = Path("/sys/bus/pci/devices")
_UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core: the hardware threads of it that may be used. `number` is its first thread
    on the host; `numa_node` is None where the kernel names none."""

    number: int
    cpus: tuple[int, ...]
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU, or a MIG slice of one, by the name that CUDA_VISIBLE_DEVICES takes."""

    uuid: str
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """What trials may be placed on; GPUs in the driver's order."""

    cores: tuple[Core, ...]
    gpus: tuple[GpuDevice, ...] = ()


def read_node() -> Node:
    """This machine, as far as this process may use it."""
    return Node(cores_of(allowed_cpus()), visible_gpus(read_gpus(), os.environ))


def cores_of(cpus: Iterable[int], root: Path = _CPUS) -> tuple[Core, ...]:
    """The physical cores of the CPUs."""
    threads: dict[int, list[int]] = {}
    for cpu, (_, first) in read_cores(cpus, root).items():
        threads.setdefault(first, []).append(cpu)
    return tuple(
        Core(first, tuple(sorted(members)), _node_of_cpu(root / f"cpu{first}"))
        for first, members in threads.items()
    )


def read_gpus(driver: Path = _DRIVER, pci: Path = _PCI) -> tuple[GpuDevice, ...]:
    """All GPUs that NVIDIA's driver shows here; none without it."""
    found = []
    for place in sorted(driver.glob("*/information")):
        if match := _UUID.search(place.read_text()):
            found.append(GpuDevice(match[1], _number(pci / place.parent.name / "numa_node")))
    return tuple(found)


def visible_gpus(
    gpus: tuple[GpuDevice, ...], environment: Mapping[str, str]
) -> tuple[GpuDevice, ...]:
    """Those that CUDA_VISIBLE_DEVICES leaves (Ray sets it for a task; a user may), by position or
    name. As in CUDA, what stands behind a position that there is none of does not count."""
    if VISIBLE_GPUS not in environment:
        return gpus
    left: list[GpuDevice] = []
    for name in filter(None, environment[VISIBLE_GPUS].split(",")):
        device = _named(name.strip(), gpus)
        if device is None:
            break
        left.append(device)
    return tuple(left)


def _named(name: str, gpus: tuple[GpuDevice, ...]) -> GpuDevice | None:
    if name.isdigit():
        return gpus[int(name)] if int(name) < len(gpus) else None
    if name.startswith("MIG-"):  # the driver's files do not name slices
        return GpuDevice(name)
    return next((gpu for gpu in gpus if name and gpu.uuid.startswith(name)), None)


def _node_of_cpu(cpu: Path) -> int | None:
    return next((int(node.name[4:]) for node in cpu.glob("node[0-9]*")), None)


def _number(path: Path) -> int | None:
    """-1 says that there is one node, or that the firmware does not name it."""
    number = int(_text(path) or -1)
    return None if number < 0 else number


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
