"""What computes a step: a GPU, this CPU, or a GPU that is emulated by its known step time.

An accelerator takes one batch at a time with `submit`, which returns as soon as the next
batch may be sent, and says with `drain` when all of them are done.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from advisor.domain import Precision, Task

if TYPE_CHECKING:
    from models.zoo.opening import Runnable

EMULATED_QUEUE_DEPTH = 2


class Accelerator(Protocol):
    """Takes batches (inputs, targets) and computes one step on each, in order."""

    def submit(self, inputs: Any, targets: Any) -> None:
        """Hand over one batch; returns when the next one may come."""

    def drain(self) -> None:
        """Wait until every batch that was handed over is done."""


def is_named(device: str, asked: str) -> bool:
    """Whether a GPU that the driver calls `device` ('NVIDIA A100-SXM4-40GB') is the one that Ray
    or a catalogue calls `asked` ('A100', 'A100-40G')."""
    there = re.split(r"[\s-]+", device.upper())
    return all(part in there or f"{part}B" in there for part in re.split(r"[\s-]+", asked.upper()))


class EmulatedAccelerator:
    """Takes a known time for each batch, as MLPerf Storage does; the CPU sleeps meanwhile.

    Like a GPU it works asynchronously: up to `depth` batches are in flight. Steps are ended
    by an ideal clock (a step begins when the one before it ends, or when its batch comes), so
    late wake-ups delay nothing that a GPU would not have delayed, and errors do not add up.
    """

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
    """For preprocessing: the batch is what was asked for, nothing computes on it."""

    def submit(self, inputs: Any, targets: Any) -> None:
        """Take the batch; it is done."""

    def drain(self) -> None:
        """Nothing is ever in flight."""


class TorchAccelerator:
    """Runs the network on `cpu` or `cuda`, and waits for each step to end.

    Training is forward, the network's own loss, backward and an SGD step with momentum;
    inference is forward in eval mode without gradients. `amp` computes in fp16 where autocast
    allows, `bf16` in bf16.
    """

    def __init__(self, opened: Runnable, *, device: str, task: Task, precision: Precision) -> None:
        import torch

        self._torch = torch
        self._opened = opened
        self._device = torch.device(device)
        self._training = task is Task.TRAINING
        self._precision = precision
        self._network = opened.build().to(self._device).train(self._training)
        self._optimizer: Any = None
        self._scaler: Any = None
        if self._training:
            learned = [one for one in self._network.parameters() if one.requires_grad]
            self._optimizer = torch.optim.SGD(learned, lr=1e-3, momentum=0.9)
            scales = precision is Precision.AMP and device == "cuda"
            self._scaler = torch.amp.GradScaler(device, enabled=scales)

    def submit(self, inputs: Any, targets: Any) -> None:
        """Compute one step on the batch and wait for it; inference needs no targets."""
        from models.zoo.steps import to_device

        inputs = to_device(inputs, self._device)
        if self._training:
            self._train(inputs, to_device(targets, self._device))
        else:
            with self._torch.no_grad(), self._autocast():
                self._opened.forward(self._network, inputs)
        self.drain()

    def drain(self) -> None:
        """Wait for the device; the CPU computes in the foreground."""
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)

    def _train(self, inputs: Any, targets: Any) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self._opened.training_loss(self._network, inputs, targets)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._precision is Precision.FP32:
            return nullcontext()
        dtype = self._torch.float16 if self._precision is Precision.AMP else self._torch.bfloat16
        context: AbstractContextManager[Any] = self._torch.autocast(self._device.type, dtype=dtype)
        return context
