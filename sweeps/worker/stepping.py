"""Steps of a network alone: on a batch that lies on the device already, one at a time. Needs torch.

`Stepper` is one network ready to step on `cuda` or `cpu`; `time_steps` gives raw seconds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from advisor.domain import MIB, Precision, Task
from models.zoo.opening import Runnable
from models.zoo.steps import to_device
from sweeps.quality.timing import count_warmup_steps, is_steady


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBox:
    """How long steps are timed: at least `min_steps`, `seconds` once they are steady, and never
    a new step after `max_seconds` or beyond `most_steps`. The very first step comes on top."""

    seconds: float
    min_steps: int
    max_seconds: float
    most_steps: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Raw seconds of each step. The very first one (allocation, choice of algorithms) is always
    part of the warm-up. Peaks of the GPU's memory are None on a CPU."""

    warmup_seconds: tuple[float, ...]
    step_seconds: tuple[float, ...]
    wall_seconds: float
    peak_allocated_mib: float | None
    peak_reserved_mib: float | None


class Stepper:
    """One network on one device, in one task and precision.

    Training is forward, loss, backward and an SGD step with momentum; inference is forward in
    eval mode without gradients. `amp` is autocast to fp16 (with a scaled loss on CUDA), `bf16`
    autocast to bf16, `fp32` PyTorch's default (convolutions may use TF32).
    """

    def __init__(self, network: Runnable, *, device: str, task: Task, precision: Precision) -> None:
        self.device = torch.device(device)
        self._runnable = network
        self._training = task is Task.TRAINING
        self._precision = precision
        self._module: Any = network.build().to(self.device).train(self._training)
        self._without_onednn = self._lacks_onednn_lstm()
        self._optimizer: Any = None
        self._scaler: Any = None
        if self._training:
            learned = [weights for weights in self._module.parameters() if weights.requires_grad]
            self._optimizer = torch.optim.SGD(learned, lr=1e-3, momentum=0.9)
            scales = precision is Precision.AMP and self.device.type == "cuda"
            self._scaler = torch.amp.GradScaler(self.device.type, enabled=scales)

    @property
    def environment(self) -> dict[str, Any]:
        """What a measurement says of the kernels that computed it, where they are not the usual."""
        return {"cpu_kernels": "native, without oneDNN"} if self._without_onednn else {}

    @property
    def is_training(self) -> bool:
        """Whether steps need targets."""
        return self._training

    def batch(self, batch_size: int) -> tuple[Any, Any]:
        """A synthetic batch on the device."""
        inputs, targets = self._runnable.synthetic_batch(batch_size, self.device)
        return inputs, targets

    def targets_for(self, inputs: Any) -> Any:
        """Targets that fit inputs which came from a data set."""
        return self._runnable.synthetic_targets(inputs)

    def send(self, batch: Any) -> Any:
        """Copy tensors to the device without waiting."""
        return to_device(batch, self.device)

    def step(self, inputs: Any, targets: Any) -> None:
        """Compute one step and wait for it."""
        if self._training:
            self._train(inputs, targets)
        else:
            with torch.no_grad(), self._computing():
                self._runnable.forward(self._module, inputs)
        self.synchronize()

    def synchronize(self) -> None:
        """Wait for the device; a CPU computes in the foreground."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _train(self, inputs: Any, targets: Any) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        with self._computing():
            loss = self._runnable.training_loss(self._module, inputs, targets)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """The forward pass in the step's precision; the backward pass follows what it recorded."""
        with _autocast(self.device, self._precision):
            if self._without_onednn:
                with _native_kernels():
                    yield
            else:
                yield

    def _lacks_onednn_lstm(self) -> bool:
        """Whether oneDNN has no LSTM in this precision on this CPU, as for bf16 without AVX-512."""
        on_cpu = self.device.type == "cpu"
        if not (on_cpu and any(isinstance(part, nn.LSTM) for part in self._module.modules())):
            return False
        try:
            with torch.random.fork_rng(), torch.no_grad(), _autocast(self.device, self._precision):
                nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
        except RuntimeError:
            return True
        return False


def _autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    if precision is Precision.FP32:
        return nullcontext()
    dtype = torch.float16 if precision is Precision.AMP else torch.bfloat16
    context: AbstractContextManager[Any] = torch.autocast(device.type, dtype=dtype)
    return context


@contextmanager
def _native_kernels() -> Iterator[None]:
    """PyTorch's own CPU kernels in place of oneDNN's."""
    onednn: Any = torch.backends.mkldnn
    before = onednn.enabled
    onednn.enabled = False
    try:
        yield
    finally:
        onednn.enabled = before


def time_synthetic(
    stepper: Stepper,
    batch_size: int,
    box: TimeBox,
    clock: Callable[[], float] = time.perf_counter,
) -> Steps:
    """Steps on one synthetic batch, the device synchronised after each; raises what torch does.

    Peaks of GPU memory are of this batch size: weights, gradients and optimiser included.
    """
    forget_peaks(stepper.device.type)
    inputs, targets = stepper.batch(batch_size)
    device = stepper.device.type
    return time_steps(lambda: stepper.step(inputs, targets), box, device=device, clock=clock)


def time_steps(
    step: Callable[[], object],
    box: TimeBox,
    *,
    device: str,
    clock: Callable[[], float] = time.perf_counter,
) -> Steps:
    """Call `step`, which returns when its work is done, until the box is full."""
    start = previous = clock()
    step()
    steps = [clock() - start]
    begun = previous = clock()
    while True:
        step()
        now = clock()
        steps.append(now - previous)
        previous, elapsed = now, now - begun
        enough = elapsed >= box.seconds and len(steps) > box.min_steps
        if enough and is_steady(steps[len(steps) // 2 :]):
            break
        if elapsed >= box.max_seconds or len(steps) > box.most_steps:
            break
    # The first step allocates and chooses algorithms: it is never like the others.
    warmup = 1 + count_warmup_steps(steps[1:])
    allocated, reserved = peaks(device)
    return Steps(
        warmup_seconds=tuple(steps[:warmup]),
        step_seconds=tuple(steps[warmup:]),
        wall_seconds=previous - start,
        peak_allocated_mib=allocated,
        peak_reserved_mib=reserved,
    )


def forget_peaks(device: str) -> None:
    """Begin to count the GPU's peaks anew, with no memory kept from before."""
    free_memory(device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peaks(device: str) -> tuple[float | None, float | None]:
    """MiB that tensors took at most since `forget_peaks`, and that torch took from the GPU."""
    if device != "cuda":
        return None, None
    return torch.cuda.max_memory_allocated() / MIB, torch.cuda.max_memory_reserved() / MIB


def free_memory(device: str) -> None:
    """Give back what nobody refers to any more; the CUDA context itself stays."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def device_is_usable(device: str) -> bool:
    """Whether the device still computes: after some faults a process's CUDA never does again."""
    if device != "cuda":
        return True
    try:
        torch.ones(1, device=device).add_(1)
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True
