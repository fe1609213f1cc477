"""A stand-in for torch.cuda on a machine without a GPU: streams, events, memory, and a clock.

torch computes on the CPU, and the order of calls is recorded on the clock of a device that takes
`step_seconds` for the kernels between two recorded events, and `copy_seconds` for a batch. With `python -m
tests.sweeps.cuda_standin` the worker (or another program, by its name) runs in a process of its own where
torch sees a GPU; `SETTINGS` in its environment says which. It shows order and plumbing, and measures
nothing."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from tests.sweeps.builders import SleepingClock

SETTINGS = "CUDA_STANDIN"
_AUTOCAST = torch.autocast
COMMAND = (sys.executable, "-P", "-m", "tests.sweeps.cuda_standin")


@dataclass(frozen=True)
class Call:
    """What was called when, in the host's seconds; `number` counts a kind's calls from 0.

    Of a wait, `number` is that of the record it waits for, and `busy` says whether the device still had work
    when the call began."""

    what: str
    number: int
    at: float
    busy: bool
    blocking: bool = True


@dataclass
class StandIn:
    """One CUDA device, on which so many `neighbours` compute (as NVML has it). Times are seconds of
    `clock`; `sleep` lets them pass."""

    name: str = "Tesla T4"
    memory_mib: int = 15_102
    free_mib: int = 10_000
    multiprocessors: int = 40
    capability: tuple[int, int] = (7, 5)
    uuid: str = "6f6d0000-0000-0000-0000-000000000000"
    neighbours: int = 0
    step_seconds: float = 0.01
    copy_seconds: float = 0.001
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    calls: list[Call] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    launched: bool = False
    ready_at: float = 0.0  # when the device has done all it was given

    def note(self, what: str, number: int | None = None, *, blocking: bool = True) -> int:
        """Add a call to the record; its number."""
        if number is None:
            number = self.counts[what]
            self.counts[what] += 1
        now = self.clock()
        self.calls.append(Call(what, number, now, self.ready_at > now, blocking))
        return number

    def work(self, seconds: float) -> None:
        """Queue work on the device's one stream."""
        self.ready_at = max(self.clock(), self.ready_at) + seconds

    def wait_until(self, moment: float) -> None:
        """What a host does that waits for the device."""
        self.sleep(max(0.0, moment - self.clock()))

    def synchronize(self, _device: Any = None) -> None:
        """Wait for the whole device, spinning."""
        self.note("synchronize", blocking=False)
        self.wait_until(self.ready_at)


class _Event:
    def __init__(self, device: StandIn, *, enable_timing: bool = False, blocking: bool = False) -> None:
        self._device, self._timed, self._blocking = device, enable_timing, blocking
        self.at: float | None = None

    def record(self, _stream: Any = None) -> None:
        if self._device.launched:
            self._device.work(self._device.step_seconds)
            self._device.launched = False
        self.number = self._device.note("record")
        self.at = max(self._device.clock(), self._device.ready_at)

    def synchronize(self) -> None:
        assert self.at is not None
        self._device.note("wait", self.number, blocking=self._blocking)
        self._device.wait_until(self.at)

    def query(self) -> bool:
        return self.at is None or self.at <= self._device.clock()

    def elapsed_time(self, later: _Event) -> float:
        assert self._timed
        assert later._timed
        for event in (self, later):
            assert event.at is not None
            # CUDA refuses: cudaErrorNotReady.
            assert event.query(), "elapsed_time of an event that has not come"
        return (later.at - self.at) * 1000


class _OnTheCpu(TorchFunctionMode):
    """Makes on the CPU what is asked for on a CUDA device; sees copies to it and kernels there."""

    def __init__(self, device: StandIn) -> None:
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        named = func is not torch.device and any(map(_is_cuda, (*args, *kwargs.values())))
        there = any(getattr(value, "_on_cuda", False) for value in args)
        if named and there and func is torch.Tensor.to:
            return args[0]
        if named:
            args = tuple(map(_on_cpu, args))
            kwargs = {name: _on_cpu(value) for name, value in kwargs.items()}
        kwargs.pop("pin_memory", None)  # a CPU build pins nothing
        answer = func(*args, **kwargs)
        if named and func is torch.Tensor.to:
            answer = answer.view_as(answer)
            self._device.note("copy")
            self._device.work(self._device.copy_seconds)
        if isinstance(answer, torch.Tensor) and (named or there):
            self._device.launched |= there
            answer._on_cuda = True
        return answer


def _cpu_autocast(_device: str, **_options: Any) -> Any:
    return _AUTOCAST("cpu", dtype=torch.bfloat16)


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"


def _on_cpu(value: Any) -> Any:
    return torch.device("cpu") if _is_cuda(value) else value


@contextmanager
def installed(device: StandIn | None = None) -> Iterator[StandIn]:
    """torch sees this CUDA device."""
    device = device or StandIn()
    major, minor = device.capability
    properties = SimpleNamespace(
        name=device.name,
        total_memory=device.memory_mib * 2**20,
        major=major,
        minor=minor,
        multi_processor_count=device.multiprocessors,
        uuid=device.uuid,
        L2_cache_size=4 * 2**20,
    )
    stream = SimpleNamespace(synchronize=device.synchronize)
    fakes = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda _device=None: device.name,
        "get_device_capability": lambda _device=None: device.capability,
        "get_device_properties": lambda _device=None: properties,
        "is_bf16_supported": lambda: True,
        "current_stream": lambda _device=None: stream,
        "synchronize": device.synchronize,
        "Event": lambda **options: _Event(device, **options),
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda _device=None: None,
        "memory_allocated": lambda _device=None: 700 * 2**20,
        "max_memory_allocated": lambda _device=None: 900 * 2**20,
        "max_memory_reserved": lambda _device=None: 1_200 * 2**20,
        "mem_get_info": lambda _device=None: (device.free_mib * 2**20, properties.total_memory),
    }
    with (
        mock.patch.multiple(torch.cuda, **fakes),
        mock.patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor),
        mock.patch.object(torch.version, "cuda", "12.8"),
        mock.patch.object(torch.backends.cudnn, "version", return_value=91_002),
        # With the CPU's own 16 bits: there it computes with the same weights and activations.
        mock.patch.object(torch, "autocast", side_effect=_cpu_autocast),
        _OnTheCpu(device),
    ):
        yield device


@contextmanager
def simulated(monkeypatch: Any, *, late: float = 0.0, **device: Any) -> Iterator[StandIn]:
    """A device, and a host whose time passes only when it sleeps."""
    clock = SleepingClock(late)
    monkeypatch.setattr("time.perf_counter", clock)
    with installed(StandIn(clock=clock, sleep=clock.sleep, **device)) as seen:
        yield seen


def worker_environment(**settings: Any) -> dict[str, str]:
    """What makes a worker that `COMMAND` starts see a device of these settings."""
    return {SETTINGS: json.dumps(settings)}


if __name__ == "__main__":
    import runpy

    import pynvml

    from tests.sweeps.machine.nvml_standin import Driver, GpuStandIn

    with installed(StandIn(**json.loads(os.environ.get(SETTINGS, "{}")))) as seen:
        gpu = GpuStandIn(uuid=f"GPU-{seen.uuid}", name=seen.name, sms=seen.multiprocessors)
        gpu.processes += [(1, 300.0)] * seen.neighbours
        pynvml.nvmlLib = Driver(gpu)
        program = sys.argv.pop(1) if len(sys.argv) > 1 else "advisor.sweeps.worker"
        runpy.run_module(program, run_name="__main__", alter_sys=True)
