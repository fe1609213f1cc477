"""A stand-in for libnvidia-ml.so, NVIDIA's driver library, beneath the real nvidia-ml-py.

The package's own functions and structures run; only the C functions that they look up are these. No machine
of the tests has the driver, so the real library was never called here."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field

MIB = 2**20
T4_MIB = 15360
_DONE, _NOT_SUPPORTED, _NOT_FOUND, _TOO_SMALL = 0, 3, 6, 7
_SM_CLOCK = 1


@dataclass(eq=False)
class GpuStandIn:
    """One GPU. `processes` are (pid, MiB); `bits` and `clocks` what it shows at each moment, `busy`
    its utilisation at each reading; `missing` the functions that its driver does not have."""

    uuid: str = "GPU-6f6d"
    name: str = "Tesla T4"
    total_mib: float = T4_MIB
    sms: int = 40
    capability: tuple[int, int] = (7, 5)
    bus_id: str = "00000000:00:1E.0"
    processes: list[tuple[int, float]] = field(default_factory=lambda: [(os.getpid(), 1200.0)])
    bits: list[int] = field(default_factory=lambda: [0])
    clocks: list[int] = field(default_factory=lambda: [1590])
    busy: list[int] = field(default_factory=lambda: [99])
    slices: list[GpuStandIn] = field(default_factory=list)
    whole: GpuStandIn | None = None
    missing: frozenset[str] = frozenset()
    asked: int = 0

    def now(self, values: list[int]) -> int:
        return values[min(self.asked, len(values)) - 1]


def nvml_with(monkeypatch, *gpus):
    """The product's driver has these GPUs."""
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlLib", Driver(*gpus))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


class Driver:
    """The functions of the library by name; each fills in what its last argument points at."""

    def __init__(self, *gpus: GpuStandIn) -> None:
        self._gpus = gpus
        self._every = [*gpus, *(entry for gpu in gpus for entry in gpu.slices)]
        self._missing = frozenset[str]().union(*(gpu.missing for gpu in gpus))

    def __getattr__(self, name: str):
        if name.startswith("_") or name in self._missing:
            raise AttributeError(name)
        if name in _OF_A_GPU:
            return lambda handle, *rest: self._filled(_OF_A_GPU[name], handle, rest)
        return getattr(self, f"_{name}")

    def _gpu(self, handle):
        return self._every[ctypes.cast(handle, ctypes.c_void_p).value - 1]

    def _filled(self, answer, handle, rest):
        """An answer that is None is not supported; a GPU is given as its handle."""
        *arguments, pointer = rest
        value = answer(self._gpu(handle), *(argument.value for argument in arguments))
        if value is None:
            return _NOT_SUPPORTED
        return self._put(pointer, value)

    def _put(self, pointer, value):
        target = pointer._obj
        if isinstance(value, dict):
            for name, part in value.items():
                setattr(target, name, part)
        elif isinstance(value, GpuStandIn):
            number = ctypes.c_void_p(self._every.index(value) + 1)
            ctypes.pointer(target)[0] = ctypes.cast(number, type(target))
        else:
            target.value = value
        return _DONE

    def _nvmlInitWithFlags(self, _flags):
        return _DONE

    def _nvmlErrorString(self, code):
        return f"error {code}".encode()

    def _nvmlDeviceGetCount_v2(self, count):
        return self._put(count, len(self._gpus))

    def _nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        return self._put(handle, self._gpus[index.value])

    def _nvmlDeviceGetHandleByUUID(self, uuid, handle):
        result = [entry for entry in self._every if entry.uuid.encode() == uuid.value]
        return self._put(handle, result[0]) if result else _NOT_FOUND

    def _nvmlSystemGetDriverVersion(self, text, _size):
        text.value = b"550.54.15"
        return _DONE

    def _nvmlSystemGetCudaDriverVersion_v2(self, version):
        return self._put(version, 12040)

    def _text(self, handle, text, name):
        text.value = getattr(self._gpu(handle), name).encode()
        return _DONE

    def _nvmlDeviceGetUUID(self, handle, text, _size):
        return self._text(handle, text, "uuid")

    def _nvmlDeviceGetName(self, handle, text, _size):
        return self._text(handle, text, "name")

    def _nvmlDeviceGetIndex(self, handle, index):
        return self._put(index, ctypes.cast(handle, ctypes.c_void_p).value - 1)

    def _nvmlDeviceGetCudaComputeCapability(self, handle, major, minor):
        ours = self._gpu(handle).capability
        return self._put(major, ours[0]) or self._put(minor, ours[1])

    def _modes(self, current, pending, mode):
        return self._put(current, int(mode)) or self._put(pending, int(mode))

    def _nvmlDeviceGetMigMode(self, handle, current, pending):
        return self._modes(current, pending, bool(self._gpu(handle).slices))

    def _nvmlDeviceGetEccMode(self, _handle, current, pending):
        return self._modes(current, pending, True)

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, handle, count, result):
        gpu = self._gpu(handle)
        room, count._obj.value = count._obj.value, len(gpu.processes)
        if result is None or room < len(gpu.processes):
            return _TOO_SMALL if gpu.processes else _DONE
        for entry, (pid, mib) in zip(result, gpu.processes, strict=False):
            entry.pid, entry.usedGpuMemory = pid, int(mib * MIB)
        return _DONE


def _clock(gpu, kind):
    gpu.asked += kind == _SM_CLOCK
    return gpu.now(gpu.clocks) if kind == _SM_CLOCK else 5001


_OF_A_GPU = {
    "nvmlDeviceIsMigDeviceHandle": lambda gpu: int(gpu.whole is not None),
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda gpu: gpu.whole,
    "nvmlDeviceGetMaxMigDeviceCount": lambda gpu: 7 if gpu.slices else 0,
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda gpu, n: dict(enumerate(gpu.slices)).get(n),
    "nvmlDeviceGetAttributes_v2": lambda gpu: {
        "multiprocessorCount": gpu.sms,
        "memorySizeMB": int(gpu.total_mib),
    },
    "nvmlDeviceGetPciInfo_v3": lambda gpu: {"busId": gpu.bus_id},
    "nvmlDeviceGetMemoryInfo": lambda gpu: {
        "total": int(gpu.total_mib * MIB),
        "used": int(sum(mib for _, mib in gpu.processes) * MIB),
    },
    "nvmlDeviceGetPowerManagementLimit": lambda gpu: 70_000,
    "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: 1590 if kind == _SM_CLOCK else 5001,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 3,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: 3,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: 8,
    "nvmlDeviceGetPersistenceMode": lambda gpu: 0,
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetPowerUsage": lambda gpu: 68_500,
    "nvmlDeviceGetTemperature": lambda gpu, sensor: 71,
    "nvmlDeviceGetUtilizationRates": lambda gpu: {
        "gpu": gpu.busy.pop(0) if len(gpu.busy) > 1 else gpu.busy[0],
        "memory": 40,
    },
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: gpu.now(gpu.bits),
}
