"""How long a step takes, layer by layer (MODEL.md's form, with the launches told apart).

    kernel = (compute^4 + memory^4 + floor^4)^(1/4)
    GPU    = sum over kernels;  launches = sum over kernels of their kind's launch seconds
    T      = (GPU^4 + launches^4)^(1/4) + constant

compute is FLOPs over peak x efficiency of the kind x utilisation. Utilisation is K/(K + k) *
N/(N + n) * O/(O + o): the reduction and the width of the product fill the tiles of the tensor
cores, its outputs per multiprocessor fill the chip. memory is bytes over bandwidth x share of the
kind. Kernels are started ahead of the GPU, so the slower of the two queues counts as a whole.
Python starts those of the forward pass, with more or less library code around a product, a
normalisation or another operation; autograd starts its own from C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Gpu
from models.performance.layerwise.operations import KINDS, PRODUCTS, StepOperations
from models.performance.networks import Floats
from models.performance.step_work import REFERENCE_STACK, unit_of

Integers = NDArray[np.int64]

_MULTIPLYING, _MOVING = len(PRODUCTS), len(KINDS)
_DEPTHWISE = KINDS.index("conv_depthwise")
# Where each parameter stands in the vector of logarithms.
_FLOOR = _MULTIPLYING + _MOVING
_PRODUCT, _NORM, _OTHER, _BACKWARD, _CONSTANT, _REDUCTION, _WIDTH, _MISALIGNED, _OUTPUTS = range(
    _FLOOR + 1, _FLOOR + 10
)
_LAUNCHES = [_PRODUCT, _NORM, _OTHER, _BACKWARD]

NAMES = (
    *(f"efficiency/{kind}" for kind in PRODUCTS),
    *(f"bandwidth/{kind}" for kind in KINDS),
    "floor_seconds", "launch_seconds/product", "launch_seconds/norm", "launch_seconds/other",
    "launch_seconds/backward", "constant_seconds",
    "half_reduction", "half_width", "misaligned", "half_outputs",
)  # fmt: skip
# Tensor cores take operands in rows of eight 16-bit numbers.
_ALIGNMENT = 8
# Multiprocessors are told by no data sheet that the product keeps; of this many a big chip has.
_USUAL_MULTIPROCESSORS = 80


class Prior(NamedTuple):
    """Mean and standard deviation of each log-parameter, shape (len(NAMES),)."""

    mean: Floats
    deviation: Floats


def _prior() -> Prior:
    """What is believed before anything is measured, in round numbers.

    Products reach a half of the peak, depthwise ones a tenth (they fill no tile); kernels move a
    half to two thirds of the bandwidth; a kernel takes 3 us at least, Python needs 10 us to start
    one and autograd 5 us; tiles are 32 wide; a multiprocessor wants 2,000 outputs.
    """
    efficiency = [0.1, 0.2, 0.5, 0.5, 0.4, 0.6, 0.4]
    bandwidth = [0.5] * _MULTIPLYING + [0.7] * (_MOVING - _MULTIPLYING)
    seconds = [3e-6, 1e-5, 1e-5, 1e-5, 5e-6, 3e-4]
    mean = np.log([*efficiency, *bandwidth, *seconds, 30, 30, 1.35, 2000])
    deviation = (
        [0.7] * _MULTIPLYING + [0.5] * _MOVING + [0.5, 0.7, 0.7, 0.7, 0.7, 1.0, 0.7, 0.7, 0.5, 0.7]
    )
    return Prior(mean, np.array(deviation))


PRIOR = _prior()


@dataclass(frozen=True, slots=True)
class Steps:
    """Many steps as one list of kernels: `step` says which of `steps` a row belongs to.

    `compute` and `memory` are seconds at the data sheet's peaks, `outputs` per multiprocessor.
    """

    steps: int
    step: Integers
    kind: Integers
    compute: Floats
    memory: Floats
    reduction: Floats
    width: Floats
    outputs: Floats
    count: Floats
    launches: Floats

    @property
    def multiplies(self) -> NDArray[np.bool_]:
        """Which rows have any arithmetic."""
        return self.compute > 0


class Peaks(NamedTuple):
    """What a data sheet promises: FLOP/s of each kind of `KINDS`, bytes/s, multiprocessors."""

    flops: Floats
    bytes: float
    multiprocessors: float


def peaks_of(gpu: Gpu, precision: str, multiprocessors: float | None = None) -> Peaks:
    """Peaks of a GPU in a precision (a `Precision`, or `step_work.HALF`), by kind."""
    flops = [unit_of(kind, precision, gpu, REFERENCE_STACK).tflops * 1e12 for kind in KINDS]
    return Peaks(
        np.array(flops),
        gpu.memory_gb_per_second * 1e9,
        multiprocessors or _USUAL_MULTIPROCESSORS,
    )


def steps_of(
    operations: Sequence[StepOperations], batch_sizes: Sequence[float], peaks: Peaks
) -> Steps:
    """The steps of several networks on one GPU, in their order; needs at least one."""
    lengths = [len(one.count) for one in operations]
    step = np.repeat(np.arange(len(operations)), lengths)
    kind, backward, flops, sample, fixed, reduction, width, count = (
        np.concatenate([getattr(one, name) for one in operations])
        for name in StepOperations.__dataclass_fields__
    )
    batch = np.asarray(batch_sizes, dtype=float)[step]
    outputs = batch * flops / (2 * np.maximum(reduction, 1)) / peaks.multiprocessors
    launches = np.zeros((len(operations), len(_LAUNCHES)))
    group = np.select([backward > 0, kind < _MULTIPLYING, kind == _MULTIPLYING], [3, 0, 1], 2)
    np.add.at(launches, (step, group), count)
    return Steps(
        steps=len(operations),
        step=step,
        kind=kind,
        compute=batch * flops / peaks.flops[kind],
        memory=(batch * sample + fixed) / peaks.bytes,
        reduction=np.maximum(reduction, 1),
        width=np.maximum(width, 1),
        outputs=np.maximum(outputs, 1e-9),
        count=count,
        launches=launches,
    )


def step_seconds(steps: Steps, parameters: Floats) -> Floats:
    """Seconds of each step, shape (steps,)."""
    return _evaluate(steps, parameters).seconds


def seconds_and_slopes(steps: Steps, parameters: Floats) -> tuple[Floats, Floats]:
    """Seconds, and d log seconds / d parameter of shape (steps, len(NAMES))."""
    found = _evaluate(steps, parameters)
    kernels = steps.count / (found.kernel * found.kernel * found.kernel)
    compute, memory = kernels * _fourth(found.compute), kernels * _fourth(found.memory)
    slopes = np.zeros((steps.steps, len(NAMES)))
    product = np.minimum(steps.kind, _MULTIPLYING - 1)
    slopes[:, :_MULTIPLYING] = -_by_kind(steps, product, compute, _MULTIPLYING)
    slopes[:, _MULTIPLYING:_FLOOR] = -_by_kind(steps, steps.kind, memory, _MOVING)
    slopes[:, _FLOOR] = _by_step(steps, kernels * np.exp(4 * parameters[_FLOOR]))
    for place, loss in found.losses.items():
        slopes[:, place] = _by_step(steps, compute * loss)
    slopes *= ((found.gpu / found.device) ** 3)[:, None]
    by_launch = (found.launch / found.device) ** 3
    for place, launches in zip(_LAUNCHES, steps.launches.T, strict=True):
        slopes[:, place] = by_launch * np.exp(parameters[place]) * launches
    slopes[:, _CONSTANT] = np.exp(parameters[_CONSTANT])
    return found.seconds, slopes / found.seconds[:, None]


class StepParts(NamedTuple):
    """Parts of step times: `gpu`, `launch` and their join `device` in seconds, shape (steps,).

    `compute`, `memory` and `kernel` are seconds of each row's kernel; `losses` holds the slope
    of the log utilisation by each of its parameters.
    """

    seconds: Floats
    gpu: Floats
    launch: Floats
    device: Floats
    compute: Floats
    memory: Floats
    kernel: Floats
    losses: dict[int, Floats]


def _evaluate(steps: Steps, parameters: Floats) -> StepParts:
    log_utilisation, losses = _utilisation(steps, parameters)
    product = np.minimum(steps.kind, _MULTIPLYING - 1)
    compute = steps.compute * np.exp(-parameters[product] - log_utilisation)
    memory = steps.memory * np.exp(-parameters[_MULTIPLYING + steps.kind])
    floor = np.exp(4 * parameters[_FLOOR])
    kernel = np.sqrt(np.sqrt(_fourth(compute) + _fourth(memory) + floor))
    gpu = _by_step(steps, steps.count * kernel)
    launch = steps.launches @ np.exp(parameters[_LAUNCHES])
    device = np.sqrt(np.sqrt(_fourth(gpu) + _fourth(launch)))
    seconds = device + np.exp(parameters[_CONSTANT])
    return StepParts(seconds, gpu, launch, device, compute, memory, kernel, losses)


def step_parts(steps: Steps, parameters: Floats) -> StepParts:
    """Where the time of each step goes."""
    return _evaluate(steps, parameters)


def _utilisation(steps: Steps, parameters: Floats) -> tuple[Floats, dict[int, Floats]]:
    """Log utilisation of each row, and how much a larger log-parameter takes of it."""
    tiled = steps.multiplies & (steps.kind != _DEPTHWISE)
    odd = tiled & ((steps.reduction % _ALIGNMENT != 0) | (steps.width % _ALIGNMENT != 0))
    sizes = {_REDUCTION: steps.reduction, _WIDTH: steps.width, _OUTPUTS: steps.outputs}
    losses = {
        place: (tiled if place != _OUTPUTS else steps.multiplies)
        / (1 + size * np.exp(-parameters[place]))
        for place, size in sizes.items()
    }
    log_utilisation = sum(np.log1p(-loss) for loss in losses.values())
    misaligned = np.exp(parameters[_MISALIGNED])
    losses[_MISALIGNED] = np.where(odd, misaligned / (1 + misaligned), 0.0)
    log_utilisation = log_utilisation - np.where(odd, np.log1p(misaligned), 0.0)
    return log_utilisation, losses


def _fourth(values: Floats) -> Floats:
    # NumPy's power takes twenty times as long, and a fit spends its time here.
    squares: Floats = values * values
    return squares * squares


def _by_step(steps: Steps, values: Floats) -> Floats:
    summed: Floats = np.bincount(steps.step, values, steps.steps).astype(float)
    return summed


def _by_kind(steps: Steps, kind: Integers, values: Floats, kinds: int) -> Floats:
    flat = np.bincount(steps.step * kinds + kind, values, steps.steps * kinds)
    shaped: Floats = flat.reshape(steps.steps, kinds).astype(float)
    return shaped
