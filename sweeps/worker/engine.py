"""Computes the steps of a trial: PyTorch on CUDA or this CPU, an emulated GPU, or nothing."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from advisor.domain import MIB, Accelerator, AcceleratorKind, Gpu, MemoryFormat, Precision, Stack, Task
from advisor.domain.gpu_names import identified
from advisor.errors import MeasuringError
from advisor.models.zoo.capture import autocast, to_device
from advisor.models.zoo.opening import Runnable
from advisor.sweeps.machine.gpu import gpu_facts
from advisor.sweeps.trial.child import recognised_ending


class Completion(Protocol):
    """The end of one step."""

    def wait(self) -> None:
        """Wait for the end of the step without using the CPU."""

    def seconds_since(self, earlier: Any) -> float:
        """Seconds from the end of an earlier step to the end of this one; both must have ended."""


class Moment(NamedTuple):
    """A completion at a known time of the host's clock, past or future."""

    at: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def wait(self) -> None:
        """Sleep until that time."""
        remaining = self.at - self.clock()
        if remaining > 0:
            self.sleep(remaining)

    def seconds_since(self, earlier: Moment) -> float:
        """Seconds between the two completions."""
        return self.at - earlier.at


class Engine:
    """Computes steps in the order of submission, timed by the host's clock. This base class computes nothing:
    preprocessing ends with the batch. Subclasses compute, or emulate the time of a step."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.clock = clock
        self._sleep = sleep

    @property
    def environment(self) -> Mapping[str, Any]:
        """Unusual facts about the kernels, for a measurement's environment."""
        return MappingProxyType({})

    @property
    def skipped_steps(self) -> int:
        """The number of steps so far that did not do all the work of a step."""
        return 0

    def mark(self) -> Completion:
        """The completion of all steps submitted so far."""
        return self.moment(self.clock())

    def launch(self, inputs: Any, targets: Any) -> Completion:  # noqa: ARG002
        """Begin one step on a batch in host memory; may return before the step ends."""
        return self.mark()

    def require_finite_loss(self) -> None:
        """Raise `MeasuringError` if a training has diverged."""

    def moment(self, due: float) -> Moment:
        """A completion at the time `due` of the clock."""
        return Moment(due, self.clock, self._sleep)


class EmulatedGpu(Engine):
    """Emulates a GPU that takes a known time for each batch, like MLPerf Storage; the CPU sleeps meanwhile.

    Ends of steps are computed (a step begins when the previous one ends, or when its batch arrives), so that
    late wake-ups cause no delay that a GPU would not have, and errors do not add up."""

    def __init__(self, step_seconds: float, **host: Any) -> None:
        super().__init__(**host)
        self._step_seconds = step_seconds
        self._last_end = 0.0

    def launch(self, inputs: Any, targets: Any) -> Moment:  # noqa: ARG002
        """Queue one step."""
        self._last_end = max(self.clock(), self._last_end) + self._step_seconds
        return self.moment(self._last_end)


# Variables that change rates or memory, and that no other fact shows.
_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "NVIDIA_TF32_OVERRIDE")


def torch_facts(device: str) -> dict[str, Any]:
    """The number of threads, and for CUDA the device's name, libraries and arithmetic, and the driver's facts
    (`gpu_facts`; None without NVML)."""
    facts: dict[str, Any] = {"threads": torch.get_num_threads()}
    if device != AcceleratorKind.CUDA:
        return facts
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return facts | {
        "gpu": torch.cuda.get_device_name(),
        "gpu_facts": gpu_facts(gpu_uuid()),
        "gpu_sm_count": properties.multi_processor_count,
        "gpu_memory_mib": properties.total_memory / MIB,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def present_gpu(sheets: Mapping[str, Gpu]) -> Accelerator:
    """The current CUDA device: a card of `sheets`, a slice of one, or another GPU."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return identified(
        properties.name,
        sheets,
        memory_mib=properties.total_memory / MIB,
        sm_count=properties.multi_processor_count,
        compute_capability=f"{properties.major}.{properties.minor}",
    )


def gpu_uuid() -> str:
    """The current GPU's UUID without prefix, or a slice's name; '' if this version of torch has none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if visible.startswith("MIG-"):  # CUDA sees only the first slice
        return visible.partition(",")[0]
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(getattr(properties, "uuid", ""))


def forget_peaks(device: str) -> None:
    """Release cached memory, and reset the GPU's peak counters."""
    free_memory(device)
    if device == AcceleratorKind.CUDA:
        torch.cuda.reset_peak_memory_stats()


def peaks(device: str, process_mib: float | None = None) -> dict[str, float]:
    """The peak MiB since `forget_peaks` of tensors, and of torch's memory on the GPU. `gpu_context_mib`, the
    memory of CUDA's context and other libraries, is the rest of the driver's count for the process
    (`process_mib`; None if unknown). Empty on a CPU."""
    if device != AcceleratorKind.CUDA:
        return {}
    reserved = torch.cuda.max_memory_reserved() / MIB
    context = {} if process_mib is None else {"gpu_context_mib": max(0.0, process_mib - reserved)}
    return {
        "gpu_peak_allocated_mib": torch.cuda.max_memory_allocated() / MIB,
        "gpu_peak_reserved_mib": reserved,
        **context,
    }


def free_memory(device: str) -> None:
    """Release unused memory; the CUDA context stays."""
    gc.collect()
    if device == AcceleratorKind.CUDA:
        torch.cuda.empty_cache()


# Small enough for thousands of steps on one synthetic batch without diverging; the work is the same.
_LEARNING_RATE, _MOMENTUM = 1e-5, 0.9
# By default a scaler doubles its scale every 2,000 steps, and skips a step if that was too much. Here the
# scale only falls, so that every step that counts is a whole one.
_NEVER = 2**31 - 1


class CudaCompletion:
    """An event in the stream after a step.

    A waiting thread sleeps (CUDA's default wait spins, and would take a vCPU from the loader). The `batch` is
    kept until its copy to the device is done."""

    def __init__(self, device: torch.device, batch: Any = None) -> None:
        event: Any = torch.cuda.Event
        self._event = event(enable_timing=True, blocking=True)
        self._event.record(torch.cuda.current_stream(device))
        self._batch = batch

    def wait(self) -> None:
        """Sleep until the GPU has reached the event."""
        self._event.synchronize()
        self._batch = None

    def seconds_since(self, earlier: CudaCompletion) -> float:
        """Seconds by the GPU's clock, to half a microsecond; late wake-ups of the host do not matter."""
        milliseconds: float = earlier._event.elapsed_time(self._event)
        return milliseconds / 1000


class TorchEngine(Engine):
    """Computes the steps of one network on one device, in one task and precision.

    Training is forward, loss, backward and an SGD step with momentum; inference is forward in eval mode under
    `torch.inference_mode` (`no_grad` for a network that needs it). `amp` is autocast to fp16 (with a scaled
    loss on CUDA), `bf16` autocast to bf16, `fp32` PyTorch's default (convolutions may use TF32). With `stack`
    COMPILE the first step compiles. Copies use the computing stream, as in a plain loop: they overlap with
    the host's work, not with the GPU's. A `parallel` training averages gradients over all ranks of the
    existing process group."""

    def __init__(
        self,
        network: Runnable,
        *,
        device: str,
        task: Task,
        precision: Precision,
        memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS,
        stack: Stack = Stack.EAGER,
        clock: Callable[[], float] = time.perf_counter,
        parallel: bool = False,
    ) -> None:
        super().__init__(clock)
        self.device = torch.device(device)
        self._runnable = network
        self._training = task is Task.TRAINING
        self._precision = precision
        self._format = torch.channels_last if memory_format is MemoryFormat.CHANNELS_LAST else None
        module: Any = network.build().to(self.device).train(self._training)
        if self._format is not None:
            module = module.to(memory_format=self._format)
        self._without_onednn = self._lacks_onednn_lstm(module)
        self._module: Any = torch.compile(module) if stack is Stack.COMPILE else module
        if parallel:
            # Wraps the compiled module, since torch.compile would not compile a network inside DDP.
            self._module = DistributedDataParallel(self._module)
        self._without_gradients: Callable[[], AbstractContextManager[Any]] = torch.inference_mode
        self._launched = self._optimized = 0
        self._loss: Any = None
        if self._training:
            learned = [weights for weights in module.parameters() if weights.requires_grad]
            self._optimizer = torch.optim.SGD(learned, lr=_LEARNING_RATE, momentum=_MOMENTUM)
            self._optimizer.register_step_post_hook(self._count_optimized)
            self._scaler = torch.amp.GradScaler(
                self.device.type,
                enabled=precision is Precision.AMP and self.device.type == AcceleratorKind.CUDA,
                growth_interval=_NEVER,
            )

    def leave_group(self) -> None:
        """Stop averaging gradients with other ranks."""
        if isinstance(self._module, DistributedDataParallel):
            self._module = self._module.module

    @property
    def environment(self) -> dict[str, Any]:
        kernels = {"cpu_kernels": "native, without oneDNN"} if self._without_onednn else {}
        skipped = {"skipped_optimizer_steps": self.skipped_steps} if self.skipped_steps else {}
        mode = {"gradient_mode": "no_grad"} if self._without_gradients is torch.no_grad else {}
        return {**kernels, **skipped, **mode}

    @property
    def skipped_steps(self) -> int:
        """The number of optimiser steps that the gradient scaler skipped because gradients overflowed."""
        return self._launched - self._optimized if self._training else 0

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients of a training step."""
        return sum(parameter.nbytes for parameter in self._module.parameters() if parameter.requires_grad)

    def batch(self, batch_size: int) -> tuple[Any, Any]:
        """A synthetic batch on the device."""
        inputs, targets = self._runnable.synthetic_batch(batch_size, self.device)
        return to_device(inputs, self.device, self._format), targets

    def mark(self) -> Completion:
        return self._completion(None)

    def launch(self, inputs: Any, targets: Any) -> Completion:
        """Copy a batch to the device and compute a step on it; inference needs no targets."""
        sent = to_device(inputs, self.device, self._format)
        if self._training:
            self._train(sent, to_device(targets, self.device))
        else:
            self._infer(sent)
        self._launched += 1
        return self._completion((inputs, targets))

    def require_finite_loss(self) -> None:
        """Raise `MeasuringError` if training has diverged, since its steps do not represent a training."""
        if self._loss is None or bool(torch.isfinite(self._loss)):
            return
        raise MeasuringError(
            f"the loss of {self._runnable.info.name} is {float(self._loss):g} after "
            f"{self._launched} steps in {self._precision}",
            hint="take another precision (bf16, fp32), or mend the network's loss",
        )

    def _completion(self, batch: Any) -> Completion:
        if self.device.type == AcceleratorKind.CUDA:
            return CudaCompletion(self.device, batch)
        return super().mark()

    def _infer(self, inputs: Any) -> None:
        try:
            with self._without_gradients(), self._computing():
                self._runnable.forward(self._module, inputs)
        except RuntimeError as error:
            # A network may compute gradients in its forward pass, which inference mode forbids. A second
            # attempt, without that mode, helps with no other error.
            known = self._launched or self._without_gradients is torch.no_grad
            if known or recognised_ending(error):
                raise
            self._without_gradients = torch.no_grad
            self._infer(inputs)

    def _train(self, inputs: Any, targets: Any) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        with self._computing():
            loss = self._runnable.training_loss(self._module, inputs, targets)
        scaled: Any = self._scaler.scale(loss)
        scaled.backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._loss = loss.detach()

    def _count_optimized(self, *_: Any) -> None:
        self._optimized += 1

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """The context of a forward pass: its precision, and PyTorch's CPU kernels if oneDNN lacks one."""
        onednn: Any = torch.backends.mkldnn
        before = onednn.enabled
        onednn.enabled = before and not self._without_onednn
        try:
            with autocast(self.device.type, self._precision):
                yield
        finally:
            onednn.enabled = before

    def _lacks_onednn_lstm(self, module: nn.Module) -> bool:
        """True if oneDNN lacks an LSTM in this precision on this CPU, as for bf16 without AVX-512."""
        on_cpu = self.device.type == "cpu"
        if not (on_cpu and any(isinstance(part, nn.LSTM) for part in module.modules())):
            return False
        try:
            with torch.random.fork_rng(), torch.inference_mode(), autocast(self.device.type, self._precision):
                nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
        except RuntimeError:
            return True
        return False
