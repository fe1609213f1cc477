"""A stand-in for pynvml with the functions that the product calls: no machine of the tests has
NVIDIA's driver, so the real library was never called here. What it gives back has the shapes of
nvidia-ml-py 13.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

MIB = 2**20
T4_MIB = 15360


@dataclass
class GpuStandIn:
    """One GPU. `processes` are (pid, MiB); `bits` the throttle reasons at each moment."""

    uuid: str = "GPU-6f6d"
    name: str = "Tesla T4"
    total_mib: float = T4_MIB
    sms: int = 40
    capability: tuple[int, int] = (7, 5)
    bus_id: str = "00000000:00:1E.0"
    processes: list[tuple[int, float]] = field(default_factory=lambda: [(os.getpid(), 1200.0)])
    bits: list[int] = field(default_factory=lambda: [0])
    clocks: list[int] = field(default_factory=lambda: [1590])
    slices: list[GpuStandIn] = field(default_factory=list)
    whole: GpuStandIn | None = None
    unsupported: frozenset[str] = frozenset()
    asked: int = 0


def nvml_with(monkeypatch, *gpus):
    """The product's `import pynvml` finds a driver with these GPUs."""
    monkeypatch.setitem(sys.modules, "pynvml", library(*gpus))


class _NvmlError(Exception):
    value = 3  # not supported


def library(*gpus):
    """What `import pynvml` is to find."""
    module = ModuleType("pynvml")
    module.NVMLError, module.NVML_ERROR_LIBRARY_NOT_FOUND = _NvmlError, 12
    module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM, module.NVML_TEMPERATURE_GPU = 1, 2, 0

    def found(uuid):
        every = [*gpus, *(one for gpu in gpus for one in gpu.slices)]
        return next((one for one in every if one.uuid == uuid), None) or _refuse()

    def clock(gpu, kind):
        gpu.asked += kind == module.NVML_CLOCK_SM
        return gpu.clocks[min(gpu.asked, len(gpu.clocks)) - 1] if kind == 1 else 5001

    def per_gpu(name, answer):
        def function(gpu, *arguments):
            if name in gpu.unsupported:
                _refuse()
            result = answer(gpu, *arguments)
            return _refuse() if result is None else result

        setattr(module, name, function)

    module.nvmlInit = lambda: None
    module.nvmlDeviceGetCount = lambda: len(gpus)
    module.nvmlDeviceGetHandleByIndex = lambda index: gpus[index]
    module.nvmlDeviceGetHandleByUUID = found
    module.nvmlSystemGetDriverVersion = lambda: "550.54.15"
    module.nvmlSystemGetCudaDriverVersion_v2 = lambda: 12040
    for name, answer in {
        "nvmlDeviceIsMigDeviceHandle": lambda gpu: int(gpu.whole is not None),
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda gpu: gpu.whole,
        "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 7 if gpu.slices else 0,
        "nvmlDeviceGetMigDeviceHandleByIndex": lambda gpu, n: dict(enumerate(gpu.slices)).get(n),
        "nvmlDeviceGetAttributes_v2": lambda gpu: SimpleNamespace(
            multiprocessorCount=gpu.sms, memorySizeMB=gpu.total_mib
        ),
        "nvmlDeviceGetIndex": gpus.index,
        "nvmlDeviceGetUUID": lambda gpu: gpu.uuid,
        "nvmlDeviceGetName": lambda gpu: gpu.name,
        "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=gpu.bus_id),
        "nvmlDeviceGetCudaComputeCapability": lambda gpu: gpu.capability,
        "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(
            total=gpu.total_mib * MIB, used=sum(mib for _, mib in gpu.processes) * MIB
        ),
        "nvmlDeviceGetPowerManagementLimit": lambda gpu: 70_000,
        "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: 1590 if kind == 1 else 5001,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 3,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
        "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: 3,
        "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: 8,
        "nvmlDeviceGetMigMode": lambda gpu: [int(bool(gpu.slices)), 0],
        "nvmlDeviceGetEccMode": lambda gpu: [1, 1],
        "nvmlDeviceGetPersistenceMode": lambda gpu: 0,
        "nvmlDeviceGetClockInfo": clock,
        "nvmlDeviceGetPowerUsage": lambda gpu: 68_500,
        "nvmlDeviceGetTemperature": lambda gpu, sensor: 71,
        "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=99, memory=40),
        "nvmlDeviceGetCurrentClocksEventReasons": _bits,
        "nvmlDeviceGetCurrentClocksThrottleReasons": _bits,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [
            SimpleNamespace(pid=pid, usedGpuMemory=int(mib * MIB)) for pid, mib in gpu.processes
        ],
    }.items():
        per_gpu(name, answer)
    return module


def _bits(gpu):
    return gpu.bits[min(gpu.asked, len(gpu.bits)) - 1]


def _refuse():
    raise _NvmlError
