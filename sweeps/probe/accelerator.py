"""The device that is timed: CUDA where it works, else the CPU, with torch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.extras import install_command, install_hint
from advisor.messages import Message
from advisor.sweeps.probe.timing import time_calls


class Device(Struct, frozen=True):
    """A torch device; `kind` is `cuda` (its device 0) or `cpu`."""

    kind: str

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        if self.kind == "cuda":
            load_torch().cuda.synchronize()

    def time_calls(self, call: Callable[[], object], seconds: float) -> list[float]:
        """See `advisor.sweeps.probe.timing.time_calls`; the device is synchronised around a
        repeat."""
        return time_calls(call, seconds, synchronize=self.synchronize)

    def random(self, *shape: int, dtype: Any = None) -> Any:
        """A tensor of normal random numbers (zeros would draw less power, and clock higher)."""
        torch = load_torch()
        return torch.randn(shape, device=self.kind).to(dtype or torch.float32)

    def free(self) -> None:
        """Give cached memory back, so that the next measurement finds room."""
        if self.kind == "cuda":
            load_torch().cuda.empty_cache()


CPU = Device("cpu")
CUDA = Device("cuda")


def has_cuda() -> bool:
    """Whether torch is here and can use a CUDA device; raises nothing."""
    try:
        return bool(load_torch().cuda.is_available())
    except MeasuringError:
        return False


def need_cuda() -> None:
    """Raises `MeasuringError` that says which part is missing."""
    torch = load_torch()
    if torch.version.cuda is None and torch.version.hip is None:
        raise MeasuringError("this torch is a CPU build", hint="install one built for CUDA")
    if not torch.cuda.is_available():
        raise MeasuringError("torch sees no CUDA device", hint="is the driver loaded and new enough?")


def compute_capability() -> tuple[int, int]:
    """The compute capability of CUDA device 0."""
    major, minor = load_torch().cuda.get_device_capability(0)
    return int(major), int(minor)


def missing(package: str) -> MeasuringError:
    """The error that names the extra which brings `package`."""
    return MeasuringError("{package} is not installed", hint=install_hint("sweep"), package=package)


def load_torch() -> ModuleType:
    """torch; `MeasuringError` where it is missing or cannot be loaded."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise missing("torch") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise MeasuringError(
            "torch cannot be loaded ({error})",
            hint=Message("repair it: {command}", command=install_command("sweep")),
            error=error,
        ) from error
    return torch
