"""What computes a step: a GPU, this CPU, or a GPU that is emulated by its known step time.

An accelerator takes one batch at a time with `submit`, which returns as soon as the next
batch may be sent, and says with `drain` when all of them are done.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sweeps.worker.stepping import Stepper

EMULATED_QUEUE_DEPTH = 2


class Accelerator(Protocol):
    """Takes batches (inputs, targets) and computes one step on each, in order."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """What the measurement's environment says of it."""

    def submit(self, inputs: Any, targets: Any) -> None:
        """Hand over one batch; returns when the next one may come."""

    def drain(self) -> None:
        """Wait until every batch that was handed over is done."""


def is_named(device: str, requested: str) -> bool:
    """Whether a GPU that the driver calls `device` ('NVIDIA A100-SXM4-40GB') is the one that Ray
    or a catalogue calls `requested` ('A100', 'A100-40G')."""
    there = re.split(r"[\s-]+", device.upper())
    return all(
        part in there or f"{part}B" in there for part in re.split(r"[\s-]+", requested.upper())
    )


class EmulatedAccelerator:
    """Takes a known time for each batch, as MLPerf Storage does; the CPU sleeps meanwhile.

    Like a GPU it works asynchronously: up to `depth` batches are in flight. Steps are ended
    by an ideal clock (a step begins when the one before it ends, or when its batch comes), so
    late wake-ups delay nothing that a GPU would not have delayed, and errors do not add up.
    """

    environment: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        step_seconds: float,
        *,
        depth: int = EMULATED_QUEUE_DEPTH,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._step_seconds = step_seconds
        self._depth = depth
        self._clock = clock
        self._sleep = sleep
        self._ends: deque[float] = deque()
        self._last_end = 0.0

    def submit(self, inputs: Any, targets: Any) -> None:  # noqa: ARG002
        """Queue one step; waits only while `depth` steps are already in flight."""
        if len(self._ends) == self._depth:
            self._wait_until(self._ends.popleft())
        self._last_end = max(self._clock(), self._last_end) + self._step_seconds
        self._ends.append(self._last_end)

    def drain(self) -> None:
        """Sleep until the last queued step is done."""
        self._wait_until(self._last_end)
        self._ends.clear()

    def _wait_until(self, moment: float) -> None:
        remaining = moment - self._clock()
        if remaining > 0:
            self._sleep(remaining)


class NoAccelerator:
    """For preprocessing: the batch is the product, nothing computes on it."""

    environment: Mapping[str, Any] = MappingProxyType({})

    def submit(self, inputs: Any, targets: Any) -> None:
        """Take the batch; it is done."""

    def drain(self) -> None:
        """Nothing is ever in flight."""


class TorchAccelerator:
    """Steps of a network on `cpu` or `cuda`, each waited for (`Stepper`)."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper

    @property
    def environment(self) -> dict[str, Any]:
        """See `Stepper`."""
        return self._stepper.environment

    def submit(self, inputs: Any, targets: Any) -> None:
        """Copy one batch to the device, compute one step on it, and wait for that."""
        stepper = self._stepper
        on_device = stepper.send(targets) if stepper.is_training else None
        stepper.step(stepper.send(inputs), on_device)

    def drain(self) -> None:
        """Wait for the device; the CPU computes in the foreground."""
        self._stepper.synchronize()
