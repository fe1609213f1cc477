"""The one place where requests become numbers, for fitting and predicting alike.

A GPU step is a list of operations. Each needs arithmetic and memory traffic; how fast a GPU
does either follows from its data sheet and from parameters that are named here, so a fitted
model is a mapping from these names to numbers, and an unknown name counts as 0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from advisor.domain import Gpu, Precision, Task
from advisor.records import dataclass
from models.performance.networks import Floats, NetworkFacts

# Precision of published rows that ran wholly in fp16, without automatic casts.
HALF = "half"
# Stacks whose names start so are the software that predictions mean.
PYTORCH = "pytorch"
# SGD with momentum reads weight, gradient and momentum and writes weight and momentum, fp32.
_OPTIMIZER_BYTES_PER_PARAMETER = 5 * 4
# Automatic casts read each fp32 weight and write its 16-bit copy once a step.
_CAST_BYTES_PER_PARAMETER = 4 + 2
_CONVOLUTIONS = ("conv_depthwise", "conv_grouped", "conv_1x1", "conv_3x3", "conv_kxk")
_FUSIBLE = ("norm", "elementwise")
# A cast is started from C++ inside another operation's call: no Python module around it.
_LAUNCH_OF_CAST = 0.3
_GIGA, _TERA = 1e9, 1e12
_GEFORCE_20 = re.compile(r"(GeForce )?RTX 20\d\d\b")


class Stack(NamedTuple):
    """How a source timed its steps. The default is what predictions mean: PyTorch eager.

    `fused`: a compiler folded elementwise and normalising operations into the others.
    """

    name: str = ""
    host: str = ""
    tf32: bool = True
    optimizer: bool = True
    copies_input: bool = False
    fused: bool = False


REFERENCE_STACK = Stack()


class Unit(NamedTuple):
    """The arithmetic unit an operation runs on: `simt` or `tensor` cores, and its peak."""

    name: str
    tflops: float
    tf32: bool = False


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one step of a cell needs, per operation, with the names of its parameters.

    Seconds are at data-sheet peaks: `compute` and `traffic` per sample, `fixed_traffic` per
    step. `compute_names` and `traffic_names` hold one parameter name an operation; the
    `shared_*` names count for all operations, `offset_names` for the GPU's time as a whole.
    """

    compute: Floats
    traffic: Floats
    fixed_traffic: Floats
    count: Floats
    compute_names: tuple[str, ...]
    traffic_names: tuple[str, ...]
    tensor: tuple[bool, ...]
    shared_simt: tuple[str, ...]
    shared_tensor: tuple[str, ...]
    shared_traffic: tuple[str, ...]
    offset_names: tuple[str, ...]
    launch_names: tuple[str, ...]
    launches: float
    copy_bytes: float


def chip(gpu_name: str) -> str:
    """'A100-SXM4-40GB' -> 'A100': what cards of one chip have in common."""
    return gpu_name.removeprefix("NVIDIA ").removeprefix("Tesla ").split("-")[0].strip()


def capability(gpu: Gpu) -> float:
    """CUDA compute capability as a number, 0 where the GPU has none."""
    try:
        return float(gpu.compute_capability or 0)
    except ValueError:
        return 0.0


def unit_of(kind: str, precision: str, gpu: Gpu, stack: Stack) -> Unit:
    """Where an operation of that class runs.

    PyTorch's defaults: convolutions in fp32 may use TF32 from Ampere on, matrix products may
    not. 16-bit formats use tensor cores where the GPU has them for the format; elsewhere the
    arithmetic is done at the fp32 rate.
    """
    generation = capability(gpu)
    if precision == Precision.FP32:
        if kind in _CONVOLUTIONS and stack.tf32 and generation >= 8 and gpu.tf32_tflops:
            return Unit("tensor", gpu.tf32_tflops, tf32=True)
    elif precision == Precision.BF16:
        if generation >= 8 and gpu.bf16_tflops:
            return Unit("tensor", gpu.bf16_tflops)
    elif generation >= 7 and gpu.fp16_tflops:
        return Unit("tensor", _with_fp32_sums(gpu, gpu.fp16_tflops))
    return Unit("simt", gpu.fp32_tflops)


def _with_fp32_sums(gpu: Gpu, fp16_tflops: float) -> float:
    """The fp16 rate of tensor cores that sum in fp32, as all networks need it.

    GeForce cards of Turing reach half of their data sheet's rate then (NVIDIA's TU102 white
    paper, table 1: RTX 2080 Ti 107.6 and 53.8); sheets that say so already are left alone.
    """
    halved = capability(gpu) == 7.5 and _GEFORCE_20.match(gpu.name) is not None
    return fp16_tflops / 2 if halved and fp16_tflops > 6 * gpu.fp32_tflops else fp16_tflops


def step_work(
    facts: NetworkFacts, task: Task, precision: str, gpu: Gpu, stack: Stack = REFERENCE_STACK
) -> StepWork:
    """What a step of `task` asks of `gpu`, per distinct operation.

    `precision` is a `Precision` or `HALF`.
    """
    operations = facts.operations[task]
    # Many operations are of few kinds.
    units = {kind: unit_of(kind, precision, gpu, stack) for kind in set(operations.kind)}
    compute_names = {kind: f"compute/{kind}/{unit.name}" for kind, unit in units.items()}
    traffic_names = {kind: f"memory/{kind}" for kind in units}
    on_tensor_cores = {kind: unit.name == "tensor" for kind, unit in units.items()}
    peak_of = {kind: unit.tflops for kind, unit in units.items()}
    tensor = tuple(on_tensor_cores[kind] for kind in operations.kind)
    peaks = np.array([peak_of[kind] for kind in operations.kind]) * _TERA
    width = 1.0 if precision == Precision.FP32 else 0.5
    bandwidth = gpu.memory_gb_per_second * _GIGA
    extra_bytes = _extra_bytes(facts, task, precision, stack)
    remains = np.array([not (stack.fused and kind in _FUSIBLE) for kind in operations.kind])
    counts = operations.count * remains
    return StepWork(
        compute=np.append(operations.flops / peaks, 0.0),
        traffic=np.append(operations.sample_bytes * width / bandwidth, 0.0),
        fixed_traffic=np.append(operations.fixed_bytes * width, extra_bytes) / bandwidth,
        count=np.append(counts, 1.0),
        compute_names=(*(compute_names[kind] for kind in operations.kind), "compute/none"),
        traffic_names=(*(traffic_names[kind] for kind in operations.kind), "memory/elementwise"),
        tensor=(*tensor, False),
        shared_simt=(*_shared_compute("simt", task, gpu, False), *_own("compute", facts, task)),
        shared_tensor=(
            *_shared_compute("tensor", task, gpu, _uses_tf32(units)),
            *_own("compute", facts, task),
        ),
        shared_traffic=(
            f"memory/{task}",
            *_own("memory", facts, task),
            f"memory/architecture/{gpu.compute_capability}",
            f"memory/16-bit/{width == 0.5}",
        ),
        offset_names=_offsets(facts, task, precision, gpu, stack, any(tensor)),
        launch_names=(*_launch_names(task, stack), *_own("launch", facts, task)),
        launches=float(counts.sum()) + _casts(facts, precision),
        copy_bytes=facts.input_bytes * width if stack.copies_input else 0.0,
    )


def _uses_tf32(units: dict[str, Unit]) -> bool:
    return any(unit.tf32 for unit in units.values())


def _shared_compute(unit: str, task: Task, gpu: Gpu, tf32: bool) -> tuple[str, ...]:
    names = (
        f"compute/{task}/{unit}",
        f"compute/architecture/{gpu.compute_capability}/{unit}",
    )
    return (*names, "compute/tf32") if tf32 else names


def _own(part: str, facts: NetworkFacts, task: Task) -> tuple[str, ...]:
    """What a network has of its own: its layers fit a GPU's tiles, caches and queue or do not."""
    return (f"{part}/network/{facts.name}", f"{part}/network/{facts.name}/{task}")


def _offsets(
    facts: NetworkFacts, task: Task, precision: str, gpu: Gpu, stack: Stack, tensor: bool
) -> tuple[str, ...]:
    unit = "tensor" if tensor else "simt"
    return (
        f"task/{task}",
        f"host/{stack.name}/{stack.host}",
        f"gpu/{chip(gpu.name)}",
        f"gpu/{chip(gpu.name)}/{unit}",
        f"stack/{stack.name}",
        f"stack/{stack.name}/{task}",
        f"stack/{stack.name}/{unit}",
        f"network/{facts.name}",
        f"network/{facts.name}/{unit}",
        f"network/{facts.name}/{task}",
        f"precision/{precision}",
    )


def _launch_names(task: Task, stack: Stack) -> tuple[str, ...]:
    """Each source's host starts kernels at its own pace; predictions mean a usual one."""
    names = ("launch_seconds", f"launch/{task}")
    if not stack.name:
        return names
    host = f"launch/{stack.name}/{stack.host}"
    return (
        (*names, host) if stack.name.startswith(PYTORCH) else (*names, host, f"launch/{stack.name}")
    )


def _extra_bytes(facts: NetworkFacts, task: Task, precision: str, stack: Stack) -> float:
    """Bytes that no operation of the network moves: optimiser and automatic casts."""
    optimizer = task == Task.TRAINING and stack.optimizer
    each = _OPTIMIZER_BYTES_PER_PARAMETER * optimizer
    each += _CAST_BYTES_PER_PARAMETER * (precision in (Precision.AMP, Precision.BF16))
    return float(each * facts.parameters)


def _casts(facts: NetworkFacts, precision: str) -> float:
    """Casts of weights as so many launches."""
    casts = precision in (Precision.AMP, Precision.BF16)
    return _LAUNCH_OF_CAST * facts.weight_tensors * casts
