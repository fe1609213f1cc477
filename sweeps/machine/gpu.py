"""The GPUs of this machine, by NVML, the library of NVIDIA's driver.

`nvidia-ml-py` (imported as pynvml) is optional and needs no torch: a process that plans, or a
probe, asks it too. What a driver does not report is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from advisor.domain import MIB
from advisor.domain.gpu_names import slice_profile
from advisor.errors import MeasuringError
from advisor.extras import install_hint

NO_NVML = "no_nvml"  # the code of the error where the package or the driver is not installed
_PCI_DEVICES = Path("/sys/bus/pci/devices")
_STATES = {0: "Disabled", 1: "Enabled"}

Facts = dict[str, Any]


class Nvml:
    """The library, with None for what a driver or a device does not report."""

    def __init__(self) -> None:
        """`MeasuringError` where the package or the driver is missing, or the driver fails."""
        self.library = _loaded()

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer of one of the library's functions."""
        try:
            return getattr(self.library, name)(*arguments)
        except self.library.NVMLError:
            return None

    def handles(self) -> list[Any]:
        """NVML handles of all whole GPUs, in the order of their PCI addresses."""
        count = self.ask("nvmlDeviceGetCount") or 0
        return [self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]

    def slices(self, handle: Any) -> list[Any]:
        """The MIG devices of a GPU."""
        count = self.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        slices = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, n) for n in range(count))
        return [gpu_slice for gpu_slice in slices if gpu_slice is not None]

    def handle_of(self, uuid: str) -> Any:
        """The NVML handle of the GPU or slice with a UUID as torch (without prefix) or the driver writes
        it; None where there is none. In a container the only GPU may have another name."""
        for text in (uuid, f"GPU-{uuid}", f"MIG-{uuid}"):
            handle = self.ask("nvmlDeviceGetHandleByUUID", text)
            if handle is not None:
                return handle
        every = self.handles()
        return every[0] if len(every) == 1 else None

    def whole_of(self, handle: Any) -> Any:
        """The GPU that a slice is of; a GPU is its own. Clocks, power and heat are the whole's."""
        if not self.is_slice(handle):
            return handle
        return self.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) or handle

    def is_slice(self, handle: Any) -> bool:
        """Whether it is a MIG device."""
        return bool(self.ask("nvmlDeviceIsMigDeviceHandle", handle))


def _loaded() -> ModuleType:
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise MeasuringError(
            "nvidia-ml-py is not installed", hint=install_hint("sweep"), code=NO_NVML
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        missing = getattr(error, "value", None) == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        raise MeasuringError(
            "NVIDIA's driver does not answer ({error})",
            hint="install the NVIDIA driver, or start the container with its GPUs",
            error=error,
            code=NO_NVML if missing else "",
        ) from error
    library: ModuleType = pynvml
    return library


def gpus() -> list[Facts]:
    """Facts of every GPU of this machine; `MeasuringError` as `Nvml` has it."""
    nvml = Nvml()
    return [facts_of(nvml, handle) for handle in nvml.handles() if handle is not None]


def gpu_facts(uuid: str) -> Facts | None:
    """Facts of the GPU (of a slice: of the whole, and `mig` of the slice) with that UUID, as torch
    or the driver has it; None where NVML cannot be asked."""
    try:
        nvml = Nvml()
    except MeasuringError:
        return None
    handle = nvml.handle_of(uuid)
    if handle is None:
        return None
    facts = facts_of(nvml, nvml.whole_of(handle))
    return facts | {"mig": _slice_facts(nvml, handle)} if nvml.is_slice(handle) else facts


def facts_of(nvml: Nvml, handle: Any) -> Facts:
    """Facts of a whole GPU; memory in MiB, power in watts, clocks in MHz. `mig_slices` are its MIG slices."""
    ask, library = nvml.ask, nvml.library
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    watts = ask("nvmlDeviceGetPowerManagementLimit", handle)
    slot = pci_address(getattr(ask("nvmlDeviceGetPciInfo", handle), "busId", None))
    cuda = ask("nvmlSystemGetCudaDriverVersion_v2")
    return {
        "index": ask("nvmlDeviceGetIndex", handle),
        "uuid": ask("nvmlDeviceGetUUID", handle),
        "pci_slot": slot,
        "numa_node": numa_node(slot),
        "name": ask("nvmlDeviceGetName", handle),
        "driver": ask("nvmlSystemGetDriverVersion"),
        "newest_cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "memory_mib": memory.total / MIB if memory else None,
        "max_sm_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_SM),
        "max_memory_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, library.NVML_CLOCK_MEM),
        "power_limit_watts": watts / 1000 if watts else None,
        "max_pcie_generation": ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "max_pcie_width": ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "mig_mode": _state(ask("nvmlDeviceGetMigMode", handle)),
        "mig_slices": [_slice_facts(nvml, gpu_slice) for gpu_slice in nvml.slices(handle)],
        "ecc_mode": _state(ask("nvmlDeviceGetEccMode", handle)),
        "persistence_mode": _STATES.get(ask("nvmlDeviceGetPersistenceMode", handle)),
    }


def _slice_facts(nvml: Nvml, handle: Any) -> Facts:
    attributes = nvml.ask("nvmlDeviceGetAttributes_v2", handle)
    name = nvml.ask("nvmlDeviceGetName", handle)
    return {
        "uuid": nvml.ask("nvmlDeviceGetUUID", handle),
        "name": name,
        "profile": slice_profile(name or ""),
        "memory_mib": float(attributes.memorySizeMB) if attributes else None,
        "sm_count": attributes.multiprocessorCount if attributes else None,
    }


def _state(modes: Sequence[int] | None) -> str | None:
    return _STATES.get(modes[0]) if modes else None


def pci_address(bus_id: str | None) -> str | None:
    """NVML's '00000000:00:1E.0' as sysfs has it: '0000:00:1e.0'."""
    return bus_id[-len("0000:00:00.0") :].lower() if bus_id else None


def numa_node(slot: str | None, devices: Path = _PCI_DEVICES) -> int | None:
    """The NUMA node that a PCI device hangs on; None where the machine does not say."""
    try:
        node = int((devices / str(slot) / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
