"""How long one step takes on a GPU: a roofline over classes of operations.

    kernel = (compute^4 + memory^4 + floor^4)^(1/4)
    step   = ((sum count * kernel)^4 + (sum launches)^4)^(1/4) + copies + constant

compute is FLOPs over the unit's peak and an efficiency that falls for short reductions, narrow
outputs and few outputs a multiprocessor; memory is bytes over the bandwidth and an efficiency.
Logs of efficiencies are sums of named parameters, so that what is known of a class, an
architecture, a GPU or a stack adds up, and the whole is one vector with one Gaussian prior.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Gpu
from advisor.records import dataclass
from models.network_columns import KINDS

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_KIND = {name: place for place, name in enumerate(KINDS)}
_CAST, _DEPTHWISE = _KIND["cast"], _KIND["conv_depthwise"]
_CONVOLUTIONS = tuple(_KIND[name] for name in KINDS if name.startswith("conv"))
_ATTENTION = _KIND["attention"]
_PRODUCTS = (*_CONVOLUTIONS, _KIND["linear"], _ATTENTION, _KIND["attention_math"],
             _KIND["attention_masked"])  # fmt: skip
# Depthwise kernels of 3x3, 5x5 and more are different programs.
_DEPTHWISE_SIZES = (9, 25)
_IS_PRODUCT = np.isin(np.arange(len(KINDS)), _PRODUCTS)
# Shares of the peak that classes of products reach before anything is measured.
_EFFICIENCY = {
    "conv_depthwise": 0.1, "conv_grouped": 0.2, "conv_1x1": 0.5, "conv_3x3": 0.6, "conv_kxk": 0.4,
    "linear": 0.65, "attention": 0.4, "attention_math": 0.4, "attention_masked": 0.3,
}  # fmt: skip
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
# A GPU whose sheet does not tell them: a multiprocessor has 128 lanes, caches hold 4 MiB.
_USUAL_LANES, _USUAL_L2_MIB, _USUAL_GHZ = 128, 4.0, 1.6


class Prior(NamedTuple):
    """What is believed of a parameter before anything is measured: a Gaussian."""

    mean: float
    sigma: float


NOTHING = Prior(0.0, 1e-6)


class Conditions(NamedTuple):
    """How a step runs, apart from the network and the batch.

    `precision` is fp32, amp, bf16 or fp16; `tf32` is "convolutions" (PyTorch's default), "on" or
    "off"; `stack` eager, torchscript, compile, ngc or another library's name; `era` the age of its
    software; `source` and `host` who measured where, empty in a question and in a user's rows.
    `unfused_attention`: the stack has no fused kernel for it.
    """

    gpu: Gpu
    task: str
    precision: str
    tf32: str = "convolutions"
    memory_format: str = "contiguous"
    stack: str = "eager"
    era: str = ""
    source: str = ""
    host: str = ""
    unfused_attention: bool = False
    optimizer: bool = True
    copies_input: bool = False


class Step(NamedTuple):
    """One step to be timed: rows of the network table (a structured array), weights, batch.

    `conditions` are those of its kind of device: `Conditions`, or a CPU's `CpuConditions`.
    """

    operations: Any
    parameters: float
    input_bytes: float
    batch_size: float
    conditions: Any


class Parameters:
    """Names of parameters with their priors, in the order in which they were first needed."""

    def __init__(self) -> None:
        self.place: dict[str, int] = {}
        self.priors: list[Prior] = []
        self.of("nothing", NOTHING)

    def of(self, name: str, prior: Prior) -> int:
        """Where the parameter stands; a new one takes its prior."""
        if name not in self.place:
            self.place[name] = len(self.priors)
            self.priors.append(prior)
        return self.place[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self.place)

    def values(self, names: Sequence[str], mean: Floats) -> Floats:
        """Each parameter's value where `names` (p,) have it with `mean` (p,), else its prior's."""
        known = dict(zip(names, mean.tolist(), strict=True))
        priors = zip(self.names, self.priors, strict=True)
        return np.array([known.get(name, prior.mean) for name, prior in priors])


_WIDE, _USUAL, _NARROW, _SMALL = 0.3, 0.2, 0.15, 0.1
# Narrow, lest it explain what a whole class of networks does.
_OF_A_SOURCE = 0.05
_OF_A_HOST = 0.4
# Who asks has a host and a way of timing of their own, which only their own rows tell.
UNNAMED = "unnamed"
_OF_AN_UNNAMED_SOURCE = 0.15
# The best kept public benchmark of PyTorch: predictions mean what it would measure.
REFERENCE_SOURCE = "timm"
_COMPUTE_SLOTS, _MEMORY_SLOTS, _SHAPE_SLOTS, _OFFSET_SLOTS, _LAUNCH_SLOTS = 13, 11, 3, 6, 4
_LAUNCH_GROUPS = ("product", "moving", "cast", "backward")
_LAUNCH_SECONDS = (1e-5, 1e-5, 6e-6, 6e-6)


@dataclass(frozen=True, slots=True)
class Steps:
    """Many steps as one list of kernels: `step` (k,) says which of the `count` steps a row has.

    `compute` and `memory` are seconds at the sheet's peaks. Rows of one class in one step share
    their parameters: `group` (k,) says which of g groups a row is of. `*_at` hold places of
    parameters that are summed, shape (g, slots) or (count, slots); `launches` (count, 4).
    """

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


def steps_of(steps: Sequence[Step], parameters: Parameters) -> Steps:
    """The steps as columns; parameters that they need are added to `parameters`."""
    lookups: dict[Conditions, _Lookup] = {}
    parts = []
    for place, step in enumerate(steps):
        lookup = lookups.get(step.conditions)
        if lookup is None:
            lookup = lookups[step.conditions] = _Lookup(step.conditions, parameters)
        parts.append(_columns(step, lookup, place))
    sizes = np.cumsum([0, *(len(p.group_rows[0]) for p in parts)])
    joined: list[Any] = [np.concatenate(c) for c in zip(*(p.rows for p in parts), strict=True)]
    joined[1] = joined[1] + sizes[joined[0]]
    rows = zip(*(p.group_rows for p in parts), strict=True)
    grouped: list[Any] = [np.concatenate(column) for column in rows]
    names = ("unaligned", "floor", "constant", "l2", "narrow")
    priors = (
        Prior(math.log(0.3), 0.4), Prior(math.log(2e-6), 0.3), Prior(math.log(5e-5), 0.5),
        Prior(math.log(1.0), 0.7), Prior(math.log(16.0), 0.4),
    )  # fmt: skip
    common = {n: parameters.of(n, p) for n, p in zip(names, priors, strict=True)}
    for group, seconds in zip(_LAUNCH_GROUPS, _LAUNCH_SECONDS, strict=True):
        common[group] = parameters.of(f"launch/{group}", Prior(math.log(seconds), 1.0))
    of_steps: list[Any] = [
        np.array([p.launches for p in parts]),
        np.array([lookups[s.conditions].launch_at for s in steps], dtype=np.intp),
        np.array([lookups[s.conditions].offset_at for s in steps], dtype=np.intp),
        np.array([p.extra_seconds for p in parts]),
    ]
    columns: list[Any] = [*joined, *grouped, *of_steps, common]
    return Steps(len(steps), *columns)


class _Part(NamedTuple):
    rows: tuple[Any, ...]
    group_rows: tuple[Any, ...]
    launches: Floats
    extra_seconds: float


class _Kernels(NamedTuple):
    """What is the same for a network's step on every GPU and at every batch: `code` is the class
    of each row, `codes` the distinct ones, `work` multiply-accumulates over the split reduction."""

    operations: Any
    code: Any
    codes: Any
    of_group: Any
    reduction: Any
    width: Any
    flops: Any
    work: Any
    count: Any
    sample_bytes: Any
    fixed_bytes: Any
    tiled: Any
    odd: Any
    launches: Any


def _columns(step: Step, lookup: _Lookup, place: int) -> _Part:
    how, batch, kernels = step.conditions, step.batch_size, _kernels(step)
    gpu = how.gpu
    moved = batch * kernels.sample_bytes + kernels.fixed_bytes
    tflops, *places = lookup.of(kernels)
    rows = (
        np.full(len(kernels.code), place, dtype=np.intp),
        kernels.of_group,
        batch * kernels.flops / (tflops * _TERA),
        moved / (gpu.memory_gb_per_second * _GIGA),
        1 / (1 + moved / ((gpu.l2_mib or _USUAL_L2_MIB) * _MEBI)),
        kernels.count,
        kernels.reduction,
        kernels.width,
        np.maximum(batch * kernels.work / multiprocessors(gpu), 1e-9),
        kernels.tiled,
        kernels.odd,
    )
    copied = step.input_bytes * batch if how.copies_input else 0.0
    group_rows = (np.full(len(kernels.codes), place, dtype=np.intp), *places)
    return _Part(rows, group_rows, kernels.launches, copied / COPY_BYTES_PER_SECOND)


# A question asks for one network on many GPUs at many batches; a fit for thousands, twice.
_MADE: dict[tuple[Any, ...], _Kernels] = {}
_MOST_MADE = 10_000


def _kernels(step: Step) -> _Kernels:
    how = step.conditions
    optimizer = step.parameters if how.task == "training" and how.optimizer else None
    key = (id(step.operations), how.precision, how.unfused_attention, optimizer, _halves(how.gpu))
    found = _MADE.get(key)
    # The record holds its rows, so that no other array can have their place in memory.
    if found is None or found.operations is not step.operations:
        if len(_MADE) >= _MOST_MADE:
            _MADE.clear()
        found = _MADE[key] = _made(step.operations, how, optimizer)
    return found


def _made(operations: Any, how: Conditions, optimizer: float | None) -> _Kernels:
    table = np.asarray(operations)
    kind, backward = table["kind"].astype(np.intp), table["backward"].astype(np.intp)
    reduction = np.maximum(table["reduction"], 1).astype(float)
    width = np.maximum(table["width"], 1).astype(float)
    flops, count = table["flops"].astype(float), table["count"].astype(float)
    sample, fixed = (table[n].astype(float) for n in ("sample_elements", "fixed_elements"))
    sample_width, fixed_width = _widths(table, how)
    if how.precision in ("fp32", "fp16"):
        count = np.where(kind == _CAST, 0.0, count)
    if how.unfused_attention:
        fused = (kind == _ATTENTION) | (kind == _KIND["attention_masked"])
        sample = sample + np.where(fused, _SCORE_MOVES * flops / (4 * reduction), 0.0)
    columns = [kind, backward, reduction, width, flops, count, sample * sample_width,
               fixed * fixed_width]  # fmt: skip
    if optimizer is not None:
        moved = _OPTIMIZER_ELEMENTS * 4 * optimizer
        more = (_KIND["elementwise"], 1, 1.0, 1.0, 0.0, 1.0, 0.0, moved)
        columns = [np.append(column, value) for column, value in zip(columns, more, strict=True)]
    kind, backward, reduction, width, flops, count, sample, fixed = columns
    size = np.where(kind == _DEPTHWISE, np.digitize(reduction, _DEPTHWISE_SIZES, right=True), 0)
    code = (kind * 3 + size) * 2 + backward
    codes, of_group = np.unique(code, return_inverse=True)
    tiled = (flops > 0) & (kind != _DEPTHWISE)
    group = np.select([backward > 0, _IS_PRODUCT[kind], kind == _CAST], [3, 0, 2], 1)
    return _Kernels(
        operations, code, codes, of_group, reduction, width, flops,
        flops / (2 * np.minimum(reduction, _SPLIT_REDUCTION)), count, sample, fixed, tiled,
        tiled & ((reduction % 8 != 0) | (width % 8 != 0)), np.bincount(group, count, 4),
    )  # fmt: skip


def _halves(gpu: Gpu) -> bool:
    """Whether 16-bit formats save anything: not on Pascal but for the P100, nor before."""
    capability = gpu.capability or 0.0
    return capability >= _TENSOR_CORES or capability == _HALF_RATE


def _widths(table: Any, how: Conditions) -> tuple[Any, Any]:
    """Bytes an element of what samples and of what any batch moves."""
    precision = how.precision
    if not _halves(how.gpu):
        return 4.0, 4.0
    if precision in ("amp", "bf16"):
        return table["amp_sample_width"] / 32.0, table["amp_fixed_width"] / 32.0
    width = 2.0 if precision == "fp16" else 4.0
    return width, width


def multiprocessors(gpu: Gpu) -> float:
    """How many the sheet tells, or as many as its fp32 rate needs."""
    ghz = (gpu.boost_mhz or 0) / 1e3 or _USUAL_GHZ
    return float(gpu.sms or max(1.0, gpu.fp32_tflops * 1e3 / (2 * ghz * _USUAL_LANES)))


# TFLOP/s, then places and factors of compute and of memory, then places of shapes.
_Row = tuple[float, list[int], list[float], list[int], list[float], list[int]]


class _Lookup:
    """Places of the parameters that count under some conditions, by class of operation."""

    def __init__(self, how: Conditions, parameters: Parameters) -> None:
        self._how, self._parameters = how, parameters
        self._rows: dict[int, _Row] = {}
        self._of: dict[int, tuple[Any, ...]] = {}
        self._marked: dict[str, tuple[list[int], list[float]]] = {}
        self.launch_at = _padded(_launch_names(how), parameters, _LAUNCH_SLOTS)
        self.offset_at = _padded(_offset_names(how), parameters, _OFFSET_SLOTS)

    def of(self, kernels: _Kernels) -> tuple[Any, ...]:
        """TFLOP/s of each row; places and factors of each of its classes."""
        key = id(kernels)
        if key not in self._of:
            rows = [self._row(code) for code in kernels.codes.tolist()]
            tflops, *columns = zip(*rows, strict=True)
            kinds = (np.intp, float, np.intp, float, np.intp)
            arrays = [np.array(c, dtype=k) for c, k in zip(columns, kinds, strict=True)]
            self._of[key] = (np.array(tflops)[kernels.of_group], *arrays)
        return self._of[key]

    def _row(self, code: int) -> _Row:
        if code not in self._rows:
            rest, backward = divmod(code, 2)
            kind, size = divmod(rest, 3)
            operation = _Operation(KINDS[kind], size, bool(backward))
            unit = unit_of(operation.kind, self._how)
            compute: tuple[list[int], list[float]] = ([], [])
            shape = [0] * _SHAPE_SLOTS
            if kind in _PRODUCTS:
                compute = self._terms(
                    _compute_terms(operation, unit, self._how), _compute_marks(operation, unit)
                )
                terms = _shape_terms(operation, unit)
                shape = [self._parameters.of(name, prior) for name, prior in terms]
            memory = self._terms(_memory_terms(operation, self._how), ("memory",))
            filled = (*_filled(compute, _COMPUTE_SLOTS), *_filled(memory, _MEMORY_SLOTS))
            self._rows[code] = (unit.tflops, *filled, shape)
        return self._rows[code]

    def _terms(self, terms: Sequence[Term], marks: Sequence[str]) -> tuple[list[int], list[float]]:
        places = [self._parameters.of(name, prior) for name, prior, _ in terms]
        factors = [by for *_, by in terms]
        for mark in marks:
            if mark not in self._marked:
                self._marked[mark] = self._terms(_marks(mark, self._how.gpu), ())
            places += self._marked[mark][0]
            factors += self._marked[mark][1]
        return places, factors


def _filled(terms: tuple[list[int], list[float]], slots: int) -> tuple[list[int], list[float]]:
    places, factors = terms
    rest = slots - len(places)
    return [*places, *[0] * rest], [*factors, *[0.0] * rest]


def _padded(names: Sequence[tuple[str, Prior]], parameters: Parameters, slots: int) -> list[int]:
    places = [parameters.of(name, prior) for name, prior in names]
    return [*places, *[0] * (slots - len(places))]


class _Operation(NamedTuple):
    kind: str
    size: int
    backward: bool

    @property
    def name(self) -> str:
        return f"{self.kind}{self.size}" if self.kind == "conv_depthwise" else self.kind


class Unit(NamedTuple):
    """The arithmetic unit an operation runs on, `simt` or `tensor` cores, and its peak."""

    name: str
    tflops: float
    tf32: bool = False


def unit_of(kind: str, how: Conditions) -> Unit:
    """Where an operation of that kind runs.

    PyTorch's defaults: convolutions in fp32 may use TF32 from Ampere on, matrix products may
    not. 16-bit formats use tensor cores where the GPU has them for the format; elsewhere the
    arithmetic is done at the fp32 rate. Depthwise convolutions use no tensor core.
    """
    gpu = how.gpu
    capability = gpu.capability or 0.0
    simt = Unit("simt", gpu.fp32_tflops)
    if kind == "conv_depthwise":
        return simt
    if how.precision == "fp32":
        may = how.tf32 == "on" or (how.tf32 == "convolutions" and kind.startswith("conv"))
        if may and capability >= 8 and gpu.tf32_tflops:
            return Unit("tensor", gpu.tf32_tflops, tf32=True)
        return simt
    if how.precision == "bf16":
        return Unit("tensor", gpu.bf16_tflops) if capability >= 8 and gpu.bf16_tflops else simt
    return Unit("tensor", gpu.fp16_tflops) if capability >= 7 and gpu.fp16_tflops else simt


Term = tuple[str, Prior, float]
# Watts a multiprocessor and GHz of cards that hold their boost clock, by compute capability.
_WATTS_NEEDED = {
    "5": 3.3, "6": 3.2, "7.0": 2.2, "7.5": 2.2, "8.0": 1.7, "8.6": 2.5, "8.7": 2.5, "8.9": 1.4,
    "9": 2.1, "10": 3.5, "12": 1.4,
}  # fmt: skip
# Data-centre cards with GDDR memory keep its error codes in the memory itself, on by default.
_INLINE_ECC = re.compile(r"(T4|L4|L40|L20|L2|A10|A16|A2|A40|P4|P40|M40|M60|K80)(\b|[GMS]\b)")
# Cards for desks raise their clocks above the sheet's where they are cool enough.
_DESKTOP = re.compile(r"(GeForce|RTX [2-5]0\d\d|GTX|TITAN)")
# How a mark falls with that ratio, from the three cards above.
_POWER_SLOPES = {
    "tensor": Prior(1.1, 0.2), "simt": Prior(1.1, 0.2), "depthwise": Prior(0.6, 0.2),
}  # fmt: skip


def _compute_terms(operation: _Operation, unit: Unit, how: Conditions) -> list[Term]:
    """Log efficiency of arithmetic as a sum: (parameter, prior, factor)."""
    kind, usual = operation.name, Prior(0.0, _USUAL)
    prior = Prior(math.log(_EFFICIENCY[operation.kind]), _WIDE)
    terms: list[Term] = [(f"compute/{kind}/{unit.name}", prior, 1.0)]
    if operation.backward:
        terms.append((f"compute/backward/{operation.kind}", usual, 1.0))
    if how.memory_format == "channels_last" and operation.kind.startswith("conv"):
        terms.append((f"compute/channels_last/{kind}/{unit.name}", usual, 1.0))
    if unit.tf32:
        terms.append(("compute/tf32", Prior(0.0, 0.25), 1.0))
    elif unit.name == "tensor" and how.precision in ("bf16", "fp16"):
        terms.append((f"compute/{how.precision}", Prior(0.0, _SMALL), 1.0))
    if operation.kind == "attention" and how.unfused_attention:
        terms.append(("compute/unfused_attention", Prior(0.0, 0.5), 1.0))
    if how.stack != "eager":
        terms.append((f"stack/{how.stack}/{unit.name}", usual, 1.0))
    return terms


def _compute_marks(operation: _Operation, unit: Unit) -> tuple[str, ...]:
    if operation.kind == "conv_depthwise":
        return ("depthwise",)
    return (unit.name, "convolution") if operation.kind.startswith("conv_") else (unit.name,)


def _marks(mark: str, gpu: Gpu) -> list[Term]:
    """What an architecture and a GPU make of that unit, beside what the sheet's ratios tell."""
    terms: list[Term] = [
        (f"architecture/{gpu.compute_capability}/{mark}", Prior(0.0, _NARROW), 1.0),
        (f"gpu/{gpu.name}/{mark}", Prior(0.0, 0.12), 1.0),
    ]
    if mark == "memory" and _INLINE_ECC.match(gpu.name):
        terms.append(("memory/inline_ecc", Prior(-0.15, 0.05), 1.0))
    if mark in ("tensor", "simt") and _DESKTOP.match(gpu.name):
        terms.append((f"desktop/{mark}", Prior(0.1, 0.15), 1.0))
    power = _POWER_SLOPES.get(mark)
    if power:
        terms.append((f"power/{mark}", power, power_ratio(gpu)))
    return terms


def power_ratio(gpu: Gpu) -> float:
    """Log of the watts that a multiprocessor has at its clock, over what one of its architecture
    needs to hold it; 0 where it has enough, or nobody knows.

    Boost clocks of sheets are not held under load by cards of few watts: a T4 of 70 W does 25 of
    its 65 TFLOPS, an L4 of 72 W 65 of 121, an A10 of 150 W 54 of 125.
    """
    needed = _WATTS_NEEDED.get((gpu.compute_capability or "").partition(".")[0])
    needed = _WATTS_NEEDED.get(gpu.compute_capability or "", needed)
    if not (needed and gpu.watts and gpu.sms and gpu.boost_mhz):
        return 0.0
    return min(0.0, math.log(gpu.watts / (gpu.sms * gpu.boost_mhz / 1e3) / needed))


def _shape_terms(operation: _Operation, unit: Unit) -> list[tuple[str, Prior]]:
    """Sizes at which half the rate is lost: reduction, width, outputs a multiprocessor."""
    groups = {"conv_depthwise": "depthwise", "conv_grouped": "grouped", "linear": "linear",
              "attention": "attention", "attention_math": "attention",
              "attention_masked": "attention"}  # fmt: skip
    name = f"{groups.get(operation.kind, 'convolution')}/{unit.name}"
    outputs = 300.0 if unit.name == "tensor" else 3000.0
    return [
        (f"reduction/{name}", Prior(math.log(60.0), 0.4)),
        (f"width/{name}", Prior(math.log(30.0), 0.4)),
        (f"outputs/{name}", Prior(math.log(outputs), 0.5)),
    ]


def _memory_terms(operation: _Operation, how: Conditions) -> list[Term]:
    """Log share of the bandwidth as a sum: (parameter, prior, factor)."""
    kind, usual = operation.kind, Prior(0.0, _USUAL)
    terms: list[Term] = [(f"memory/{kind}", Prior(math.log(0.7), 0.3), 1.0)]
    group = "product" if _KIND[kind] in _PRODUCTS else kind
    if operation.backward:
        terms.append((f"memory/backward/{group}", usual, 1.0))
    if how.memory_format == "channels_last":
        layout = "convolution" if kind.startswith("conv") else kind
        terms.append((f"memory/channels_last/{layout}", usual, 1.0))
    if how.precision != "fp32":
        terms.append((f"memory/16-bit/{kind}", Prior(0.0, 0.2), 1.0))
    if how.stack != "eager":
        # A compiler fuses light kernels into others, each kind to its own extent.
        each = f"/{group}" if how.stack == "compile" else ""
        terms.append((f"stack/{how.stack}/memory{each}", Prior(0.0, 0.3), 1.0))
    return terms


def _launch_names(how: Conditions) -> list[tuple[str, Prior]]:
    """What the time of a launch depends on."""
    names = [(f"gpu/{how.gpu.name}/launch", Prior(0.0, _SMALL))]
    # Hosts launch at rates of their own, and a question names none: that doubt is its own.
    names.append((f"host/{how.host or UNNAMED}", Prior(0.0, _OF_A_HOST)))
    if how.stack != "eager":
        names.append((f"stack/{how.stack}/launch", Prior(-0.5, 0.5)))
    return names


def _offset_names(how: Conditions) -> list[tuple[str, Prior]]:
    """What makes a whole step longer or shorter."""
    names = [
        (f"task/{how.task}/{how.precision}", Prior(0.0, 0.1)),
        (f"gpu/{how.gpu.name}/{how.precision}", Prior(0.0, 0.06)),
    ]
    if how.source != REFERENCE_SOURCE:
        sigma = _OF_A_SOURCE if how.source else _OF_AN_UNNAMED_SOURCE
        names.append((f"source/{how.source or UNNAMED}", Prior(0.0, sigma)))
    if how.era:
        names.append((f"era/{how.era}", Prior(0.0, 0.07)))
    if how.stack != "eager":
        names.append((f"stack/{how.stack}", Prior(0.0, 0.2)))
    return names


def log_seconds(steps: Steps, theta: Floats) -> Floats:
    """Log of each step's seconds, shape (count,)."""
    return _evaluate(steps, theta).log_seconds


def log_seconds_and_slopes(steps: Steps, theta: Floats) -> tuple[Floats, Floats]:
    """The same, and its derivative by every parameter, shape (count, parameters)."""
    found = _evaluate(steps, theta)
    return found.log_seconds, _slopes(steps, theta, found)


def class_seconds(steps: Steps, theta: Floats) -> tuple[Floats, Floats]:
    """Seconds that each row's kernels need for arithmetic and for memory, shapes (k,)."""
    found = _evaluate(steps, theta)
    return steps.kernels * found.compute, steps.kernels * found.memory


class _Found(NamedTuple):
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


def _evaluate(steps: Steps, theta: Floats) -> _Found:
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
    kernel = np.sqrt(np.sqrt(_fourth(compute) + _fourth(memory) + floor**4))
    gpu = _summed(steps.step, steps.kernels * kernel, steps.count)
    each = np.exp(theta[[common[group] for group in _LAUNCH_GROUPS]])
    launch_parts = steps.launches * each * np.exp(theta[steps.launch_at].sum(axis=1))[:, None]
    launch = launch_parts.sum(axis=1)
    device = np.sqrt(np.sqrt(_fourth(gpu) + _fourth(launch)))
    seconds = device + steps.extra_seconds + np.exp(theta[common["constant"]])
    log = np.log(seconds) + theta[steps.offset_at].sum(axis=1)
    return _Found(log, seconds, gpu, launch, launch_parts, device, compute, memory, kernel,
                  losses, unaligned, l2_gain)  # fmt: skip


def _slopes(steps: Steps, theta: Floats, found: _Found) -> Floats:
    count, size, common = steps.count, len(theta), steps.common
    by_gpu = (found.gpu / found.device) ** 3 / found.seconds
    weight = by_gpu[steps.step] * steps.kernels / found.kernel**3
    compute, memory = weight * _fourth(found.compute), weight * _fourth(found.memory)
    groups = len(steps.group_step)

    def grouped(values: Floats) -> Floats:
        columns: Floats = _summed(steps.group, values, groups)[:, None]
        return columns

    narrow = np.exp(theta[common["narrow"]])
    lost = [compute * loss / (1 + loss) for loss in found.losses]
    by_launch = (found.launch / found.device) ** 3 / found.seconds
    each = np.arange(count)
    entries = (
        (steps.group_step, steps.compute_at, -grouped(compute) * steps.compute_by),
        (steps.group_step, steps.memory_at, -grouped(memory) * steps.memory_by),
        (steps.group_step, steps.shape_at, np.hstack([grouped(values) for values in lost])),
        (each, steps.launch_at, (by_launch * found.launch)[:, None]),
        (each, steps.offset_at, np.ones((count, 1))),
    )
    places = [(row[:, None] * size + at).ravel() for row, at, _ in entries]
    values = [np.broadcast_to(value, at.shape).ravel() for _, at, value in entries]
    slopes = _summed(np.concatenate(places), np.concatenate(values), count * size)
    table: Floats = slopes.reshape(count, size)

    def summed(values: Floats) -> Floats:
        return _summed(steps.step, values, count)

    table[:, common["narrow"]] -= summed(
        narrow * (lost[0] / (steps.reduction + narrow) + lost[1] / (steps.width + narrow))
    )
    table[:, common["unaligned"]] += summed(compute * found.unaligned / (1 + found.unaligned))
    table[:, common["floor"]] += summed(weight) * float(np.exp(theta[common["floor"]])) ** 4
    table[:, common["l2"]] -= summed(memory * found.l2_gain / (1 + found.l2_gain))
    for group, parts in zip(_LAUNCH_GROUPS, found.launch_parts.T, strict=True):
        table[:, common[group]] += by_launch * parts
    table[:, common["constant"]] += np.exp(theta[common["constant"]]) / found.seconds
    table[:, 0] = 0.0
    return table


def _summed(places: Any, values: Any, size: int) -> Floats:
    """Sums of the values at each place, shape (size,)."""
    sums: Floats = np.bincount(places, values, size).astype(float, copy=False)
    return sums


def _fourth(values: Floats) -> Floats:
    # NumPy's power takes twenty times as long, and a fit spends its time here.
    squares: Floats = values * values
    return squares * squares
