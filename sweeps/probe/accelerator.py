"""The device that is timed: CUDA where it works, else the CPU, with torch; and its repeated timings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from msgspec import Struct

from advisor.errors import MeasuringError
from advisor.extras import install_command, install_hint
from advisor.messages import Message

LEAST_REPEATS = 5
_MOST_REPEATS = 30
# A repeat shorter than this is mostly the noise of clock, scheduler and synchronisation.
_SHORTEST_REPEAT_SECONDS = 0.004
_WARMUP_SHARE = 0.2
_MOST_CALLS_A_REPEAT = 2000

Clock = Callable[[], float]


def time_calls(
    call: Callable[[], object],
    seconds: float,
    *,
    synchronize: Callable[[], object] = lambda: None,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Seconds a call in each of 5 to 30 repeats that take about `seconds` together.

    The first call (allocation, compilation, choice of algorithm) never counts; then a fifth of the time warms
    caches and clocks. A repeat holds as many calls as last 4 ms, with the device synchronised at both ends.
    """

    def repeat(calls: int) -> float:
        synchronize()
        start = clock()
        for _ in range(calls):
            call()
        synchronize()
        return (clock() - start) / calls

    repeat(1)
    once = max(repeat(1), 1e-9)
    calls = min(_MOST_CALLS_A_REPEAT, math.ceil(_SHORTEST_REPEAT_SECONDS / once))
    once = _warmed_up(repeat, calls, seconds * _WARMUP_SHARE, once)
    affordable = int(seconds * (1 - _WARMUP_SHARE) / (once * calls))
    return [repeat(calls) for _ in range(max(LEAST_REPEATS, min(_MOST_REPEATS, affordable)))]


def _warmed_up(repeat: Callable[[int], float], calls: int, seconds: float, once: float) -> float:
    """Repeat for `seconds`, uncounted; the seconds a call took at the end."""
    spent = 0.0
    while spent < seconds:
        once = max(repeat(calls), 1e-9)
        spent += once * calls
    return once


def largest_affordable(
    sizes: Sequence[int], seconds_of: Callable[[int], float], seconds: float, *, growth: float
) -> int:
    """The largest of rising `sizes` whose warm-up and repeats fit in `seconds`.

    `seconds_of` runs one size once; the next one's time is predicted by the power `growth` of
    the sizes' ratio (3 for matrix products), so that none is run that is far too large.
    """
    chosen = sizes[0]
    for size, following in zip(sizes, [*sizes[1:], None], strict=True):
        took = seconds_of(size)
        chosen = size
        if following is None:
            break
        if took * (following / size) ** growth * (LEAST_REPEATS + 3) > seconds:
            break
    return chosen


class Device(Struct, frozen=True):
    """A torch device; `kind` is `cuda` (its device 0) or `cpu`."""

    kind: str

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        if self.kind == "cuda":
            load_torch().cuda.synchronize()

    def time_calls(self, call: Callable[[], object], seconds: float) -> list[float]:
        """See `advisor.sweeps.probe.timing.time_calls`; the device is synchronised around a repeat."""
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
