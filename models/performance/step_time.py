"""Seconds of one step on a GPU: a roofline over classes of operations.

    kernel = (compute^4 + memory^4 + floor^4)^(1/4)
    step   = ((sum count * kernel)^4 + (sum launches)^4)^(1/4) + copies + constant

compute is FLOPs over the unit's peak and an efficiency that falls for short reductions, narrow
outputs and few outputs a multiprocessor; memory is bytes over the bandwidth and an efficiency.
Efficiencies are sums of named parameters: `step_parameters`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.domain import Gpu
from advisor.models.bayes import Floats, Parameters, Prior
from advisor.models.bundled import IdentityCache
from advisor.models.network_columns import KINDS
from advisor.models.performance.step_parameters import (
    KIND,
    PRODUCTS,
    Conditions,
    Integers,
    ParameterPlaces,
    Step,
    fourth,
    most_tflops,
)

_CAST, _DEPTHWISE, _UPSAMPLE = KIND["cast"], KIND["conv_depthwise"], KIND["upsample"]
# Depthwise kernels of 3x3, 5x5, 7x7 and more are different programs.
_DEPTHWISE_SIZES = (9, 25, 49)
# Reads, weights and sums of a bilinear interpolation, for each element read or written.
_UPSAMPLE_FLOPS = 8.0
_IS_PRODUCT = np.isin(np.arange(len(KINDS)), PRODUCTS)
# Libraries split a longer reduction over multiprocessors, so it is parallel work too.
_SPLIT_REDUCTION = 1024.0
# Attention that is no fused kernel (PyTorch before 2.0) writes and reads its scores four times.
_SCORE_MOVES = 4.0
# SGD with momentum reads weight, gradient and momentum and writes weight and momentum, fp32.
_OPTIMIZER_ELEMENTS = 5.0
# Pageable host memory over PCIe 3 x16, as sources that copy inside the timed step do it.
COPY_BYTES_PER_SECOND = 6e9
# Compute capabilities from which tensor cores do 16-bit products, and of the P100.
_TENSOR_CORES, _HALF_RATE = 7.0, 6.0
_TERA, _GIGA, _MEBI = 1e12, 1e9, 2.0**20
# For a GPU whose data sheet lacks them: lanes per multiprocessor, MiB of L2 cache, and clock.
_USUAL_LANES, _USUAL_L2_MIB, _USUAL_GHZ = 128, 4.0, 1.6


_COMMON = {
    "unaligned": Prior(math.log(0.3), 0.4),
    "floor": Prior(math.log(2e-6), 0.3),
    "constant": Prior(math.log(5e-5), 0.5),
    "l2": Prior(math.log(1.0), 0.7),
    "narrow": Prior(math.log(16.0), 0.4),
}
_LAUNCH_GROUPS = ("product", "moving", "cast", "backward")
_LAUNCH_SECONDS = (1e-5, 1e-5, 6e-6, 6e-6)


class Steps(Struct, frozen=True):
    """Many steps as one list of k kernels: `step` (k,) is the index of each kernel's step, below `count`.

    `compute` and `memory` are seconds at the data sheet's peaks. Kernels of one class in one step share
    parameters: `group` (k,) is the index of a kernel's group, below g. `*_at` hold indices of parameters
    that are summed, shape (g, slots) or (count, slots); `launches` is (count, 4)."""

    count: int
    step: Integers
    group: Integers
    compute: Floats
    memory: Floats
    in_l2: Floats
    kernels: Floats
    reduction: Floats
    width: Floats
    outputs: Floats
    tiled: NDArray[np.bool_]
    odd: NDArray[np.bool_]
    group_step: Integers
    compute_at: Integers
    compute_by: Floats
    memory_at: Integers
    memory_by: Floats
    shape_at: Integers
    launches: Floats
    launch_at: Integers
    offset_at: Integers
    extra_seconds: Floats
    common: Mapping[str, int]

    def log_seconds(self, theta: Floats) -> Floats:
        """Log of each step's seconds, shape (count,)."""
        return _evaluate(self, theta).log_seconds

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds, and their derivatives by every parameter, shape (count, parameters)."""
        result = _evaluate(self, theta)
        return result.log_seconds, _slopes(self, theta, result)


def steps_of(steps: Sequence[Step], parameters: Parameters) -> Steps:
    """The steps as columns; adds the parameters that they need to `parameters`."""
    lookups: dict[Conditions, ParameterPlaces] = {}
    parts = []
    for position, step in enumerate(steps):
        lookup = lookups.get(step.conditions)
        if lookup is None:
            lookup = lookups[step.conditions] = ParameterPlaces(step.conditions, parameters)
        parts.append(_columns(step, lookup, position))
    of_rows, of_groups, launches, extra_seconds = zip(*parts, strict=True)
    sizes = np.cumsum([0, *(len(columns[0]) for columns in of_groups)])
    joined: list[Any] = [np.concatenate(column) for column in zip(*of_rows, strict=True)]
    joined[1] = joined[1] + sizes[joined[0]]
    grouped: list[Any] = [np.concatenate(column) for column in zip(*of_groups, strict=True)]
    common = {name: parameters.of(name, prior) for name, prior in _COMMON.items()}
    for group, seconds in zip(_LAUNCH_GROUPS, _LAUNCH_SECONDS, strict=True):
        common[group] = parameters.of(f"launch/{group}", Prior(math.log(seconds), 1.0))
    of_steps: list[Any] = [
        np.array(launches),
        np.array([lookups[s.conditions].launch_at for s in steps], dtype=np.intp),
        np.array([lookups[s.conditions].offset_at for s in steps], dtype=np.intp),
        np.array(extra_seconds),
    ]
    columns: list[Any] = [*joined, *grouped, *of_steps, common]
    return Steps(len(steps), *columns)


class _Kernels(Struct, frozen=True):
    """The parts of a network's step that are the same on every GPU and at every batch: `code` is the
    class of each row, `codes` the distinct ones, `work` multiply-accumulates over the split reduction;
    `pixels` are threads that no batch adds to."""

    operations: Any
    code: Any
    codes: Any
    of_group: Any
    reduction: Any
    width: Any
    flops: Any
    work: Any
    pixels: Any
    count: Any
    sample_bytes: Any
    fixed_bytes: Any
    tiled: Any
    odd: Any
    launches: Any
    products: Any
    weight_bytes: float


def _columns(step: Step, lookup: ParameterPlaces, position: int) -> tuple[Any, Any, Floats, float]:
    """Columns of a step's kernels and of their groups, the numbers of launches, and seconds of copies."""
    how, batch, kernels = step.conditions, step.batch_size, _kernels(step)
    gpu = how.gpu
    moved = batch * kernels.sample_bytes + kernels.fixed_bytes
    tflops, *places = lookup.of(kernels)
    rows = (
        np.full(len(kernels.code), position, dtype=np.intp),
        kernels.of_group,
        batch * kernels.flops / (tflops * _TERA),
        moved / (gpu.memory_gb_per_second * _GIGA),
        1 / (1 + moved / ((gpu.l2_mib or _USUAL_L2_MIB) * _MEBI)),
        kernels.count,
        kernels.reduction,
        kernels.width,
        np.maximum((batch * kernels.work + kernels.pixels) / multiprocessors(gpu), 1e-9),
        kernels.tiled,
        kernels.odd,
    )
    copied = step.input_bytes * batch if how.copies_input else 0.0
    group_rows = (np.full(len(kernels.codes), position, dtype=np.intp), *places)
    return rows, group_rows, kernels.launches, copied / COPY_BYTES_PER_SECOND


# A question needs one network on many GPUs at many batch sizes; a fit needs thousands, twice.
_KERNELS: IdentityCache[_Kernels] = IdentityCache(10_000)


def _kernels(step: Step) -> _Kernels:
    how = step.conditions
    optimizer = step.parameters if how.task == "training" and how.optimizer else None
    key = (how.precision, how.unfused_attention, optimizer, _halves(how.gpu), how.stack == "compile")
    return _KERNELS.get((step.operations,), key, lambda: _made(step.operations, how, optimizer))


def _made(operations: Any, how: Conditions, optimizer: float | None) -> _Kernels:
    table = np.asarray(operations)
    kind, backward = table["kind"].astype(np.intp), table["backward"].astype(np.intp)
    reduction = np.maximum(table["reduction"], 1).astype(float)
    width = np.maximum(table["width"], 1).astype(float)
    flops, count = table["flops"].astype(float), table["count"].astype(float)
    sample, fixed = (table[n].astype(float) for n in ("sample_elements", "fixed_elements"))
    if how.stack != "compile":  # compiled code has a thread per element instead of one per pixel
        flops = np.where(kind == _UPSAMPLE, _UPSAMPLE_FLOPS * sample, flops)
    sample_width, fixed_width = _widths(table, how)
    if how.precision in ("fp32", "fp16"):
        count = np.where(kind == _CAST, 0.0, count)
    if how.unfused_attention:
        fused = (kind == KIND["attention"]) | (kind == KIND["attention_masked"])
        sample = sample + np.where(fused, _SCORE_MOVES * flops / (4 * reduction), 0.0)
    columns = [kind, backward, reduction, width, flops, count, sample * sample_width, fixed * fixed_width]
    if optimizer is not None:
        moved = _OPTIMIZER_ELEMENTS * 4 * optimizer
        more = (KIND["elementwise"], 1, 1.0, 1.0, 0.0, 1.0, 0.0, moved)
        columns = [np.append(column, value) for column, value in zip(columns, more, strict=True)]
    kind, backward, reduction, width, flops, count, sample, fixed = columns
    size = np.where(kind == _DEPTHWISE, np.digitize(reduction, _DEPTHWISE_SIZES, right=True), 0)
    code = (kind * 4 + size) * 2 + backward
    codes, of_group = np.unique(code, return_inverse=True)
    upsampled = (kind == _UPSAMPLE) & (flops > 0)
    tiled = (flops > 0) & (kind != _DEPTHWISE) & ~upsampled
    group = np.select([backward > 0, _IS_PRODUCT[kind], kind == _CAST], [3, 0, 2], 1)
    forward = count * (tiled & _IS_PRODUCT[kind] & (backward == 0))
    return _Kernels(
        operations,
        code,
        codes,
        of_group,
        reduction,
        width,
        flops,
        np.where(upsampled, 0.0, flops / (2 * np.minimum(reduction, _SPLIT_REDUCTION))),
        np.where(upsampled, width, 0.0),
        count,
        sample,
        fixed,
        tiled,
        tiled & ((reduction % 8 != 0) | (width % 8 != 0)),
        np.bincount(group, count, 4),
        np.bincount(kind, flops * count * _IS_PRODUCT[kind], len(KINDS)),
        float(forward @ fixed),
    )


def least_seconds(step: Step) -> float:
    """A lower bound of a step's seconds that needs no fit: the longer of its products at the peaks of
    their units, and of reading the weights that exceed the cache at full bandwidth."""
    kernels, gpu = _kernels(step), step.conditions.gpu
    arithmetic = sum(
        flops / most_tflops(KINDS[kind], step.conditions)
        for kind, flops in enumerate(kernels.products.tolist())
        if flops
    )
    read = kernels.weight_bytes - (gpu.l2_mib or _USUAL_L2_MIB) * _MEBI
    reading = read / (gpu.memory_gb_per_second * _GIGA)
    return float(max(step.batch_size * arithmetic / _TERA, reading))


def _halves(gpu: Gpu) -> bool:
    """True if 16-bit formats save time: on the P100, and on GPUs from Volta on."""
    capability = gpu.capability or 0.0
    return capability >= _TENSOR_CORES or capability == _HALF_RATE


def _widths(table: Any, how: Conditions) -> tuple[Any, Any]:
    """Bytes per element of what each sample moves, and of what each batch moves."""
    precision = how.precision
    if not _halves(how.gpu):
        return 4.0, 4.0
    if precision in ("amp", "bf16"):
        return table["amp_sample_width"] / 32.0, table["amp_fixed_width"] / 32.0
    width = 2.0 if precision == "fp16" else 4.0
    return width, width


def multiprocessors(gpu: Gpu) -> float:
    """The number of multiprocessors in the data sheet, or else as many as its fp32 rate implies."""
    ghz = (gpu.boost_mhz or 0) / 1e3 or _USUAL_GHZ
    return float(gpu.sms or max(1.0, gpu.fp32_tflops * 1e3 / (2 * ghz * _USUAL_LANES)))


def class_seconds(steps: Steps, theta: Floats) -> tuple[Floats, Floats]:
    """Seconds that each row's kernels need for arithmetic and for memory, shapes (k,)."""
    result = _evaluate(steps, theta)
    return steps.kernels * result.compute, steps.kernels * result.memory


class _Evaluation(Struct, frozen=True):
    log_seconds: Floats
    seconds: Floats
    gpu: Floats
    launch: Floats
    launch_parts: Floats
    device: Floats
    compute: Floats
    memory: Floats
    kernel: Floats
    losses: tuple[Floats, Floats, Floats]
    unaligned: Floats
    l2_gain: Floats


def _evaluate(steps: Steps, theta: Floats) -> _Evaluation:
    common = steps.common
    scales = np.exp(theta[steps.shape_at])[steps.group]
    narrow = np.exp(theta[common["narrow"]])
    losses = (
        np.where(steps.tiled, scales[:, 0] / (steps.reduction + narrow), 0.0),
        np.where(steps.tiled, scales[:, 1] / (steps.width + narrow), 0.0),
        np.where(steps.compute > 0, scales[:, 2] / steps.outputs, 0.0),
    )
    unaligned = np.where(steps.odd, np.exp(theta[common["unaligned"]]), 0.0)
    loss = (1 + losses[0]) * (1 + losses[1]) * (1 + losses[2]) * (1 + unaligned)
    efficiency = (theta[steps.compute_at] * steps.compute_by).sum(axis=1)[steps.group]
    share = (theta[steps.memory_at] * steps.memory_by).sum(axis=1)[steps.group]
    l2_gain = np.exp(theta[common["l2"]]) * steps.in_l2
    compute = steps.compute * np.exp(-efficiency) * loss
    memory = steps.memory * np.exp(-share) / (1 + l2_gain)
    floor = float(np.exp(theta[common["floor"]]))
    kernel = np.sqrt(np.sqrt(fourth(compute) + fourth(memory) + floor**4))
    gpu = _summed(steps.step, steps.kernels * kernel, steps.count)
    each = np.exp(theta[[common[group] for group in _LAUNCH_GROUPS]])
    launch_parts = steps.launches * each * np.exp(theta[steps.launch_at].sum(axis=1))[:, None]
    launch = launch_parts.sum(axis=1)
    device = np.sqrt(np.sqrt(fourth(gpu) + fourth(launch)))
    seconds = device + steps.extra_seconds + np.exp(theta[common["constant"]])
    log = np.log(seconds) + theta[steps.offset_at].sum(axis=1)
    return _Evaluation(
        log, seconds, gpu, launch, launch_parts, device, compute, memory, kernel, losses, unaligned, l2_gain
    )


def _slopes(steps: Steps, theta: Floats, results: _Evaluation) -> Floats:
    count, size, common = steps.count, len(theta), steps.common
    by_gpu = (results.gpu / results.device) ** 3 / results.seconds
    weight = by_gpu[steps.step] * steps.kernels / results.kernel**3
    compute, memory = weight * fourth(results.compute), weight * fourth(results.memory)
    groups = len(steps.group_step)

    def grouped(values: Floats) -> Floats:
        columns: Floats = _summed(steps.group, values, groups)[:, None]
        return columns

    narrow = np.exp(theta[common["narrow"]])
    lost = [compute * loss / (1 + loss) for loss in results.losses]
    by_launch = (results.launch / results.device) ** 3 / results.seconds
    each = np.arange(count)
    entries = (
        (steps.group_step, steps.compute_at, -grouped(compute) * steps.compute_by),
        (steps.group_step, steps.memory_at, -grouped(memory) * steps.memory_by),
        (steps.group_step, steps.shape_at, np.hstack([grouped(values) for values in lost])),
        (each, steps.launch_at, (by_launch * results.launch)[:, None]),
        (each, steps.offset_at, np.ones((count, 1))),
    )
    places = [(row[:, None] * size + columns).ravel() for row, columns, _ in entries]
    values = [np.broadcast_to(value, columns.shape).ravel() for _, columns, value in entries]
    slopes = _summed(np.concatenate(places), np.concatenate(values), count * size)
    table: Floats = slopes.reshape(count, size)

    def summed(values: Floats) -> Floats:
        return _summed(steps.step, values, count)

    table[:, common["narrow"]] -= summed(
        narrow * (lost[0] / (steps.reduction + narrow) + lost[1] / (steps.width + narrow))
    )
    table[:, common["unaligned"]] += summed(compute * results.unaligned / (1 + results.unaligned))
    table[:, common["floor"]] += summed(weight) * float(np.exp(theta[common["floor"]])) ** 4
    table[:, common["l2"]] -= summed(memory * results.l2_gain / (1 + results.l2_gain))
    for group, parts in zip(_LAUNCH_GROUPS, results.launch_parts.T, strict=True):
        table[:, common[group]] += by_launch * parts
    table[:, common["constant"]] += np.exp(theta[common["constant"]]) / results.seconds
    table[:, 0] = 0.0
    return table


def _summed(places: Any, values: Any, size: int) -> Floats:
    """Sums of the values at each place, shape (size,)."""
    sums: Floats = np.bincount(places, values, size).astype(float, copy=False)
    return sums
