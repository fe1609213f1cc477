"""Reads facts of this machine's GPUs by NVML, and samples a GPU while steps are timed.

`nvidia-ml-py` (imported as pynvml) is optional and works without torch, so planning and probing use it too.
Values that a driver does not report are None."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from advisor.domain import MIB
from advisor.domain.gpu_names import slice_profile
from advisor.errors import MeasuringError
from advisor.extras import install_hint

NO_NVML = "no_nvml"  # the code of the error if the package or the driver is not installed
_PCI_DEVICES = Path("/sys/bus/pci/devices")
_STATES = {0: "Disabled", 1: "Enabled", None: None}

Facts = dict[str, Any]
Sample = Mapping[str, Any]


class Nvml:
    """The NVML library, with None for values that a driver or a device does not report."""

    def __init__(self) -> None:
        """Load the library. Raises `MeasuringError` if the package or the driver is missing or fails."""
        self.library = _loaded()

    def ask(self, name: str, *arguments: Any) -> Any:
        """The result of a function of the library; None if it fails."""
        try:
            return getattr(self.library, name)(*arguments)
        except self.library.NVMLError:
            return None

    def handles(self) -> list[Any]:
        """NVML handles of all whole GPUs that answer, in the order of their PCI addresses."""
        count = self.ask("nvmlDeviceGetCount") or 0
        handles = (self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count))
        return [handle for handle in handles if handle is not None]

    def slices(self, handle: Any) -> list[Any]:
        """NVML handles of the MIG devices of a GPU."""
        count = self.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        slices = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, n) for n in range(count))
        return [gpu_slice for gpu_slice in slices if gpu_slice is not None]

    def handle_of(self, uuid: str) -> Any:
        """The NVML handle of the GPU or slice with a UUID in torch's form (without prefix) or the driver's;
        None if there is none. In a container, where the UUID may differ, the only GPU is taken."""
        for text in (uuid, f"GPU-{uuid}", f"MIG-{uuid}"):
            handle = self.ask("nvmlDeviceGetHandleByUUID", text)
            if handle is not None:
                return handle
        every = self.handles()
        return every[0] if len(every) == 1 else None

    def whole_of(self, handle: Any) -> Any:
        """The handle of the whole GPU, which alone has clocks, power and temperature, of a GPU or slice."""
        if not self.is_slice(handle):
            return handle
        return self.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) or handle

    def is_slice(self, handle: Any) -> bool:
        """True if the handle is that of a MIG device."""
        return bool(self.ask("nvmlDeviceIsMigDeviceHandle", handle))

    def utilization_percent(self, handle: Any) -> int | None:
        """Utilisation of the whole GPU by all processes over the last 1/6 to 1 second, as NVML defines it."""
        rates = self.ask("nvmlDeviceGetUtilizationRates", self.whole_of(handle))
        return rates.gpu if rates else None

    def sample(self, handle: Any, group: int) -> Sample:
        """Clocks, power and temperature of the whole GPU; memory and processes of the GPU or slice."""
        ask, library, whole = self.ask, self.library, self.whole_of(handle)
        milliwatts = ask("nvmlDeviceGetPowerUsage", whole)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        return {
            "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", whole, library.NVML_CLOCK_SM),
            "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", whole, library.NVML_CLOCK_MEM),
            "power_watts": None if milliwatts is None else milliwatts / 1000,
            "temperature_celsius": ask("nvmlDeviceGetTemperature", whole, library.NVML_TEMPERATURE_GPU),
            "utilization_percent": self.utilization_percent(handle),
            "used_memory_mib": memory.used / MIB if memory else None,
            "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration", whole),
            "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth", whole),
            # NVML renamed it to EventReasons in driver 535, and keeps the old name.
            "throttle_bits": ask("nvmlDeviceGetCurrentClocksThrottleReasons", whole),
            **_process_figures(ask("nvmlDeviceGetComputeRunningProcesses_v3", handle), group),
        }


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
            f"NVIDIA's driver does not answer ({error})",
            hint="install the NVIDIA driver, or start the container with its GPUs",
            code=NO_NVML if missing else "",
        ) from error
    library: ModuleType = pynvml
    return library


def gpus() -> list[Facts]:
    """Facts of every GPU of this machine. Raises the errors of `Nvml`."""
    nvml = Nvml()
    return [facts_of(nvml, handle) for handle in nvml.handles()]


def driver_gpus() -> list[Facts]:
    """The driver's facts of this machine's GPUs; empty without NVIDIA's driver."""
    with suppress(MeasuringError):
        return gpus()
    return []


def gpu_facts(uuid: str) -> Facts | None:
    """Facts of the GPU with a UUID in torch's or the driver's form; for a slice, facts of the whole GPU, and
    the slice's under `mig`. None if NVML or the GPU is missing."""
    if (found := _nvml_handle(uuid)) is None:
        return None
    nvml, handle = found
    facts = facts_of(nvml, nvml.whole_of(handle))
    return facts | {"mig": _slice_facts(nvml, handle)} if nvml.is_slice(handle) else facts


def _nvml_handle(uuid: str) -> tuple[Nvml, Any] | None:
    """NVML and the handle of a GPU or slice; None if NVML or the GPU is missing."""
    with suppress(MeasuringError):
        nvml = Nvml()
        if (handle := nvml.handle_of(uuid)) is not None:
            return nvml, handle
    return None


def facts_of(nvml: Nvml, handle: Any) -> Facts:
    """Facts of a whole GPU; memory in MiB, power in watts, clocks in MHz. `mig_slices` are its MIG slices."""
    ask, library = nvml.ask, nvml.library
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    watts = ask("nvmlDeviceGetPowerManagementLimit", handle)
    bus_id = getattr(ask("nvmlDeviceGetPciInfo", handle), "busId", None)
    # '00000000:00:1E.0'; sysfs has '0000:00:1e.0'.
    slot = bus_id[-len("0000:00:00.0") :].lower() if bus_id else None
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
        "mig_mode": _STATES.get((ask("nvmlDeviceGetMigMode", handle) or [None])[0]),
        "mig_slices": [_slice_facts(nvml, gpu_slice) for gpu_slice in nvml.slices(handle)],
        "ecc_mode": _STATES.get((ask("nvmlDeviceGetEccMode", handle) or [None])[0]),
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


def numa_node(slot: str | None, devices: Path = _PCI_DEVICES) -> int | None:
    """The NUMA node of a PCI device; None if the machine does not report it."""
    try:
        node = int((devices / str(slot) / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


_EVERY_SECONDS = 0.25
_AVERAGED_SECONDS = 1.25
# nvmlClocksEventReason* of nvml.h, by bit.
_THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
_MEASURED = ("sm_clock_mhz", "memory_clock_mhz", "power_watts", "temperature_celsius", "utilization_percent")


class ThreadSampler:
    """Takes samples in a background thread inside a `with` block."""

    def __init__(self, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class GpuSampler(ThreadSampler):
    """Samples one GPU; `environment` has the summary for a measurement's environment.

    `uuid` has torch's or the driver's form; None means that no GPU is used, and the summary is empty. `group`
    is the measured process group (None: this process's); every other process on the GPU is a neighbour."""

    def __init__(
        self, uuid: str | None, group: int | None = None, every_seconds: float = _EVERY_SECONDS
    ) -> None:
        self._device = None if uuid is None else _nvml_handle(uuid)
        self._group = os.getpgrp() if group is None else group
        self._is_needed = uuid is not None
        self._samples: list[Sample] = []
        super().__init__(every_seconds)

    @property
    def environment(self) -> dict[str, Any]:
        """The keys of `summarised`; without NVML only `gpu_sampling`, without a GPU none."""
        if self._samples:
            return summarised(self._samples)
        return {"gpu_sampling": "unavailable"} if self._is_needed else {}

    def _run(self) -> None:
        while self._device:
            nvml, handle = self._device
            self._samples.append(nvml.sample(handle, self._group))
            if self._ended.wait(self._every_seconds):
                return


def _process_figures(processes: Iterable[Any] | None, group: int) -> dict[str, Any]:
    """GPU memory (MiB) of this group's processes, including the driver's context, and the number of other
    processes on the GPU.

    In a container NVML may hide processes, or list their ids on the host. A single unknown process may
    therefore be ours or a neighbour: both figures are None. Of several unknown processes all but one count as
    neighbours."""
    known = list(processes or ())
    mine = [process for process in known if _group_of(process.pid) == group]
    used = [process.usedGpuMemory for process in mine if process.usedGpuMemory is not None]
    is_counted = mine or len(known) > 1
    return {
        "own_memory_mib": sum(used) / MIB if used else None,
        "other_processes": len(known) - max(1, len(mine)) if is_counted else None,
    }


def _group_of(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


def busy_percent(uuid: str) -> int | None:
    """Percent of time that other processes keep a GPU busy before this one computes; None if NVML does not
    report it. The minimum of several readings, since each averages over up to a second
    (nvmlDeviceGetUtilizationRates) and may include a trial that has just ended."""
    if (found := _nvml_handle(uuid)) is None:
        return None
    nvml, handle = found
    least, until = nvml.utilization_percent(handle), time.monotonic() + _AVERAGED_SECONDS
    while least and time.monotonic() < until:
        time.sleep(_EVERY_SECONDS)
        least = min(least, nvml.utilization_percent(handle) or 0)
    return least


def gpu_states(group: int | None = None) -> list[Facts]:
    """The UUID and present state of every GPU, as seen from a process group. Raises the errors of `Nvml`."""
    nvml, group = Nvml(), os.getpgrp() if group is None else group
    return [
        {"uuid": nvml.ask("nvmlDeviceGetUUID", handle), **nvml.sample(handle, group)}
        for handle in nvml.handles()
    ]


def summarised(samples: Sequence[Sample]) -> dict[str, Any]:
    """The summary of at least one sample, for a measurement's environment, without values never reported.

    The means of the first and the last third of the samples show a drift; `gpu_throttle_reasons` has the
    share of samples of each; `gpu_process_memory_mib` includes the driver's context."""
    figures = {name: _values(samples, name) for name in _MEASURED}
    peaks = {
        "gpu_other_processes": _values(samples, "other_processes"),
        "gpu_used_memory_mib": _values(samples, "used_memory_mib"),
        "gpu_process_memory_mib": _values(samples, "own_memory_mib"),
    }
    ranges = {name: _range(values) for name, values in figures.items() if values}
    bits = _values(samples, "throttle_bits")
    counts = {name: sum(1 for value in bits if value & bit) for bit, name in _THROTTLE_REASONS.items()}
    reasons = {name: count / len(bits) for name, count in counts.items() if count}
    return {
        "gpu_samples": {"count": len(samples)} | ranges,
        **({"gpu_throttle_reasons": reasons} if bits else {}),
        **{name: max(values) for name, values in peaks.items() if values},
    }


def _range(values: Sequence[float]) -> dict[str, float]:
    third = max(1, len(values) // 3)
    return {
        "min": min(values),
        "mean": statistics.fmean(values),
        "max": max(values),
        "first_third": statistics.fmean(values[:third]),
        "last_third": statistics.fmean(values[-third:]),
    }


def _values(samples: Sequence[Sample], name: str) -> list[Any]:
    return [value for sample in samples if (value := sample.get(name)) is not None]
