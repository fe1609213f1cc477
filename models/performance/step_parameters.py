"""The parameters of a GPU step's time: which of them each class of operations has, and their priors.

Logs of efficiencies are sums of named parameters: of the class, the architecture, the GPU and the stack. All
parameters form one vector with one Gaussian prior."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.domain import Gpu
from advisor.models.bayes import NOTHING, UNNAMED, Floats, Parameters, Prior
from advisor.models.bundled import power_ratio
from advisor.models.network_columns import KINDS

Integers = NDArray[np.intp]

KIND = {name: number for number, name in enumerate(KINDS)}
_CONVOLUTIONS = tuple(KIND[name] for name in KINDS if name.startswith("conv"))
PRODUCTS = (
    *_CONVOLUTIONS,
    KIND["linear"],
    KIND["attention"],
    KIND["attention_math"],
    KIND["attention_masked"],
)
# How a compiler lays out convolutions by itself.
_LAYOUTS = {"compile": "channels_last"}
# Operations with a time for arithmetic; interpolation is one, since it keeps few threads busy.
_COMPUTING = (*PRODUCTS, KIND["upsample"])
# Shares of the peak that classes of products reach before anything is measured.
_EFFICIENCY = {
    "conv_depthwise": 0.1,
    "conv_grouped": 0.2,
    "conv_1x1": 0.5,
    "conv_3x3": 0.6,
    "conv_kxk": 0.4,
    "linear": 0.65,
    "attention": 0.4,
    "attention_math": 0.4,
    "attention_masked": 0.3,
    "upsample": 0.04,
}
_COMPUTE_SLOTS, _MEMORY_SLOTS, _SHAPE_SLOTS, _OFFSET_SLOTS, _LAUNCH_SLOTS = 14, 11, 3, 10, 4
# The last size of depthwise filters, of more than 7x7.
_LARGER = 3
_WIDE, _USUAL, _SMALL = 0.3, 0.2, 0.1
# Cards of one architecture lie further apart than architectures do.
_OF_AN_ARCHITECTURE, _OF_A_CARD = 0.12, 0.15
# The spread between sources of one cell; half of it may be due to networks (`network_effects`).
_OF_A_SOURCE = 0.07
_OF_A_HOST = 0.4
_OF_AN_UNNAMED_SOURCE = 0.15
# The first architecture whose units compute bf16 and TF32.
AMPERE = 8.0
# Scripts lose more time around a step than benchmarks do, and differ more in it. Priors are by bits,
# since the time around a step is no shorter in 16 bits.
_OF_SCRIPTS = {"16": Prior(0.3, 0.3), "32": Prior(0.15, 0.3)}
_OF_A_SCRIPT, _OF_AN_UNNAMED_SCRIPT = {"16": 0.25, "32": 0.15}, {"16": 0.35, "32": 0.2}
# The parameter for how fast the user's host launches kernels.
HOST = f"host/{UNNAMED}"


class Conditions(NamedTuple):
    """The conditions of a step, apart from the network and the batch.

    `precision` is fp32, amp, bf16 or fp16; `tf32` is "convolutions" (PyTorch's default), "on" or "off";
    `stack` eager, torchscript, compile, ngc or another library's name; `era` the age of its software.
    `source` and `host` say who measured where; they are empty in a question and in a user's rows.
    `unfused_attention`: the stack has no fused attention kernel. `script`: a training script ran the step on
    `ranks` GPUs of one host, including its work around the step; otherwise a benchmark did."""

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
    script: bool = False
    ranks: int = 1


class Step(NamedTuple):
    """One step to be predicted: `operations` are rows of the network table (a structured array).

    `conditions` are `Conditions` on a GPU and `CpuConditions` on a CPU."""

    operations: Any
    parameters: float
    input_bytes: float
    batch_size: float
    conditions: Any


class Term(NamedTuple):
    """A summand of a logarithm: a parameter with its prior, times a factor."""

    name: str
    prior: Prior
    by: float = 1.0


# TFLOP/s, then places and factors of compute and of memory, then places of shapes.
_Row = tuple[float, list[int], list[float], list[int], list[float], list[int]]


class ParameterPlaces:
    """Indices of the parameters that apply under given conditions, by class of operation."""

    def __init__(self, how: Conditions, parameters: Parameters) -> None:
        self._how, self._parameters = how, parameters
        self._rows: dict[int, _Row] = {}
        # The kernels are kept too, so that their id cannot be reused.
        self._of: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self.launch_at, _ = self._padded(_launch_terms(how), _LAUNCH_SLOTS)
        self.offset_at, _ = self._padded(_offset_terms(how), _OFFSET_SLOTS)

    def of(self, kernels: Any) -> tuple[Any, ...]:
        """Peak TFLOP/s of each row (k,) of `kernels` (of `step_time`), then parameter indices and factors of
        each of its classes (g, slots)."""
        if (key := id(kernels)) not in self._of:
            rows = [self._row(code) for code in kernels.codes.tolist()]
            tflops, *columns = zip(*rows, strict=True)
            kinds = (np.intp, float, np.intp, float, np.intp)
            arrays = [np.array(c, dtype=k) for c, k in zip(columns, kinds, strict=True)]
            self._of[key] = kernels, (np.array(tflops)[kernels.of_group], *arrays)
        return self._of[key][1]

    def _row(self, code: int) -> _Row:
        if code not in self._rows:
            rest, backward = divmod(code, 2)
            kind, size = divmod(rest, 4)
            operation = _Operation(KINDS[kind], size, bool(backward))
            unit = unit_of(operation.kind, self._how)
            compute: list[Term] = []
            shape: list[Term] = []
            if kind in _COMPUTING:
                compute = _compute_terms(operation, unit, self._how)
                shape = _shape_terms(operation, unit)
            of_compute = self._padded(compute, _COMPUTE_SLOTS)
            places, _ = self._padded(shape, _SHAPE_SLOTS)
            of_memory = self._padded(_memory_terms(operation, self._how), _MEMORY_SLOTS)
            self._rows[code] = (unit.tflops, *of_compute, *of_memory, places)
        return self._rows[code]

    def _padded(self, terms: Sequence[Term], slots: int) -> tuple[list[int], list[float]]:
        """Indices and factors of the terms' parameters, filled up with those of nothing."""
        rest = slots - len(terms)
        places = [self._parameters.of(term.name, term.prior) for term in terms]
        return [*places, *[0] * rest], [*(term.by for term in terms), *[0.0] * rest]


class _Operation(Struct, frozen=True):
    kind: str
    size: int
    backward: bool

    @property
    def name(self) -> str:
        return f"{self.kind}{self.size}" if self.kind == "conv_depthwise" else self.kind

    @property
    def is_larger(self) -> bool:
        """True if it is depthwise and larger than 7x7."""
        return self.size == _LARGER

    @property
    def program(self) -> str:
        """The name of the kernel program; filters larger than 7x7 share that of 7x7, plus another term."""
        return f"{self.kind}{_LARGER - 1}" if self.is_larger else self.name


class Unit(Struct, frozen=True):
    """The arithmetic unit an operation runs on, `simt` or `tensor` cores, and its peak TFLOP/s."""

    name: str
    tflops: float
    tf32: bool = False


def unit_of(kind: str, how: Conditions) -> Unit:
    """The unit that runs an operation of that kind.

    PyTorch's defaults: convolutions in fp32 may use TF32 from Ampere on, matrix products may not. 16-bit
    formats use tensor cores where the GPU has them for the format; elsewhere the arithmetic is done at the
    fp32 rate. Depthwise convolutions use no tensor core."""
    gpu = how.gpu
    capability = gpu.capability or 0.0
    simt = Unit("simt", gpu.fp32_tflops)
    if kind in ("conv_depthwise", "upsample"):
        return simt
    if how.precision == "fp32":
        may = how.tf32 == "on" or (how.tf32 == "convolutions" and kind.startswith("conv"))
        if may and capability >= AMPERE and gpu.tf32_tflops:
            return Unit("tensor", gpu.tf32_tflops, tf32=True)
        return simt
    if how.precision == "bf16":
        return Unit("tensor", gpu.bf16_tflops) if capability >= AMPERE and gpu.bf16_tflops else simt
    return Unit("tensor", gpu.fp16_tflops) if capability >= 7 and gpu.fp16_tflops else simt


# Winograd's algorithm for larger filters, which libraries use outside of tensor cores, needs a
# quarter of the multiplications (Lavin and Gray 2016, tiles of 4x4).
_WINOGRAD = {"conv_3x3": 4.0, "conv_kxk": 4.0, "conv_grouped": 4.0}


def most_tflops(kind: str, how: Conditions) -> float:
    """An upper bound of TFLOP/s for a kind of operation, computed natively or in 16 bits."""
    gpu, unit = how.gpu, unit_of(kind, how)
    if unit.name == "tensor":
        return unit.tflops
    sixteen = 0.0 if how.precision == "fp32" else gpu.fp16_tflops or 0.0
    if how.precision == "bf16":
        sixteen = unit_of("linear", how).tflops
    return max(unit.tflops, sixteen) * _WINOGRAD.get(kind, 1.0)


# Data-centre cards with GDDR memory keep its error codes in the memory itself, on by default.
_INLINE_ECC = re.compile(r"(T4|L4|L40|L20|L2|A10|A16|A2|A40|P4|P40|M40|M60|K80)(\b|[GMS]\b)")
# Cards for desks raise their clocks above the sheet's where they are cool enough.
_DESKTOP = re.compile(r"(GeForce|RTX [2-5]0\d\d|GTX|TITAN)")
# How efficiency changes with `power_ratio`, by unit.
_POWER_SLOPES = {"tensor": Prior(1.1, 0.2), "simt": Prior(1.1, 0.2), "depthwise": Prior(0.6, 0.2)}


def _compute_terms(operation: _Operation, unit: Unit, how: Conditions) -> list[Term]:
    """Log efficiency of arithmetic as a sum."""
    usual = Prior(0.0, _USUAL)
    prior = Prior(math.log(_EFFICIENCY[operation.kind]), _WIDE)
    terms = [Term(f"compute/{operation.program}/{unit.name}", prior)]
    if operation.is_larger:
        terms.append(Term(f"compute/{operation.name}/{unit.name}", Prior(-0.3, 0.4)))
    if operation.backward:
        terms.append(Term(f"compute/backward/{operation.kind}", usual))
    if operation.kind.startswith("conv") and "channels_last" in (how.memory_format, _LAYOUTS.get(how.stack)):
        terms += _layout_terms(operation, unit, how.era)
    if unit.tf32:
        terms.append(Term("compute/tf32", Prior(0.0, 0.25)))
    elif unit.name == "tensor" and how.precision in ("bf16", "fp16"):
        terms.append(Term(f"compute/{how.precision}", Prior(0.0, _SMALL)))
    if operation.kind == "attention" and how.unfused_attention:
        terms.append(Term("compute/unfused_attention", Prior(0.0, 0.5)))
    if how.stack != "eager":
        terms.append(Term(f"stack/{how.stack}/{unit.name}", usual))
    return [*terms, *_unit_marks(operation.kind, unit, how.gpu)]


def _layout_terms(operation: _Operation, unit: Unit, era: str) -> list[Term]:
    """Terms for convolutions in channels_last; PyTorch 1 had few such kernels for grouped ones."""
    layout, is_depthwise = "compute/channels_last", operation.kind == "conv_depthwise"
    prior = Prior(0.0, 0.4 if is_depthwise else _USUAL)
    terms = [Term(f"{layout}/{operation.program}/{unit.name}", prior)]
    if operation.is_larger:
        terms.append(Term(f"{layout}/{operation.name}/{unit.name}", Prior(-0.5, 0.5)))
    if era and (is_depthwise or operation.kind == "conv_grouped"):
        phase = "backward" if operation.backward else "forward"
        terms.append(Term(f"{layout}/{era}/{operation.kind}/{phase}", Prior(0.0, 0.7)))
    return terms


def _unit_marks(kind: str, unit: Unit, gpu: Gpu) -> tuple[Term, ...]:
    if kind == "conv_depthwise":
        return _marks("depthwise", gpu)
    of_unit = _marks(unit.name, gpu)
    return (*of_unit, *_marks("convolution", gpu)) if kind.startswith("conv_") else of_unit


@lru_cache(maxsize=1024)
def _marks(mark: str, gpu: Gpu) -> tuple[Term, ...]:
    """Effects of the architecture and of the GPU on that unit, beyond the data sheet's ratios."""
    terms = [
        Term(f"architecture/{gpu.compute_capability}/{mark}", Prior(0.0, _OF_AN_ARCHITECTURE)),
        Term(f"gpu/{gpu.name}/{mark}", Prior(0.0, _OF_A_CARD)),
    ]
    if mark == "memory" and _INLINE_ECC.match(gpu.name):
        terms.append(Term("memory/inline_ecc", Prior(-0.15, 0.05)))
    if mark in ("tensor", "simt") and _DESKTOP.match(gpu.name):
        terms.append(Term(f"desktop/{mark}", Prior(0.1, 0.15)))
    if power := _POWER_SLOPES.get(mark):
        terms.append(Term(f"power/{mark}", power, power_ratio(gpu)))
    return tuple(terms)


def _shape_terms(operation: _Operation, unit: Unit) -> list[Term]:
    """Sizes at which half the rate is lost: reduction, width, outputs a multiprocessor."""
    groups = {
        "conv_depthwise": "depthwise",
        "conv_grouped": "grouped",
        "linear": "linear",
        "attention": "attention",
        "attention_math": "attention",
        "attention_masked": "attention",
        "upsample": "upsample",
    }
    name = f"{groups.get(operation.kind, 'convolution')}/{unit.name}"
    if operation.kind == "upsample":
        outputs = Term(f"outputs/{name}", Prior(math.log(1000.0), 0.5))
        return [Term("nothing", NOTHING), Term("nothing", NOTHING), outputs]
    return [
        Term(f"reduction/{name}", Prior(math.log(60.0), 0.4)),
        Term(f"width/{name}", Prior(math.log(30.0), 0.4)),
        Term(f"outputs/{name}", Prior(math.log(300.0 if unit.name == "tensor" else 3000.0), 0.5)),
    ]


def _memory_terms(operation: _Operation, how: Conditions) -> list[Term]:
    """Log share of the bandwidth as a sum."""
    kind, usual = operation.kind, Prior(0.0, _USUAL)
    terms = [Term(f"memory/{kind}", Prior(math.log(0.7), 0.3))]
    group = "product" if KIND[kind] in PRODUCTS else kind
    if operation.backward:
        terms.append(Term(f"memory/backward/{group}", usual))
    if how.memory_format == "channels_last":
        layout = "convolution" if kind.startswith("conv") else kind
        terms.append(Term(f"memory/channels_last/{layout}", usual))
    if how.precision != "fp32":
        terms.append(Term(f"memory/16-bit/{kind}", Prior(0.0, 0.2)))
    if how.stack != "eager":
        # A compiler fuses light kernels into others, each kind to its own extent.
        each = f"/{group}" if how.stack == "compile" else ""
        is_fused = how.stack == "compile" and group != "product"
        prior = Prior(0.7, 0.4) if is_fused else Prior(0.0, 0.3)
        terms.append(Term(f"stack/{how.stack}/memory{each}", prior))
    return [*terms, *_marks("memory", how.gpu)]


def _launch_terms(how: Conditions) -> list[Term]:
    terms = [Term(f"gpu/{how.gpu.name}/launch", Prior(0.0, _SMALL))]
    # Hosts differ in launch rates; a question names no host, and gets a separate, unknown one.
    terms.append(Term(f"host/{how.host or UNNAMED}", Prior(0.0, _OF_A_HOST)))
    if how.stack != "eager":
        terms.append(Term(f"stack/{how.stack}/launch", Prior(-0.5, 0.5)))
    if how.era:
        terms.append(Term(f"era/{how.era}/launch", Prior(0.0, 0.3)))
    return terms


def _offset_terms(how: Conditions) -> list[Term]:
    bits = script_bits(how.precision)
    terms = [
        Term(f"task/{how.task}/{how.precision}", Prior(0.0, 0.1)),
        Term(f"gpu/{how.gpu.name}/{how.precision}", Prior(0.0, 0.06)),
    ]
    if not how.source.startswith("kernels/"):
        # Chips of one architecture gain alike from 16 bits in whole steps, but not in single kernels.
        terms.append(Term(f"architecture/{how.gpu.compute_capability}/{bits}", Prior(0.0, 0.06)))
    if how.script:
        terms.append(Term(f"script/{bits}", _OF_SCRIPTS[bits]))
        sigma = (_OF_A_SCRIPT if how.source else _OF_AN_UNNAMED_SCRIPT)[bits]
        terms.append(Term(f"source/script/{bits}/{how.source or UNNAMED}", Prior(0.0, sigma)))
    else:
        sigma = _OF_A_SOURCE if how.source else _OF_AN_UNNAMED_SOURCE
        terms.append(Term(f"source/{how.source or UNNAMED}", Prior(0.0, sigma)))
    if how.ranks > 1:
        terms.append(Term("ranks/several", Prior(0.08, 0.05)))
    if how.era:
        prior = Prior(0.0, 0.07)
        terms += [Term(f"era/{how.era}", prior), Term(f"era/{how.era}/{bits}", prior)]
    if how.stack != "eager":
        terms.append(Term(f"stack/{how.stack}", Prior(0.0, 0.2)))
    if how.stack == "compile" and how.precision != "fp32":
        terms.append(Term("stack/compile/16", _OF_COMPILED_16_BITS))
    return terms


# PyTorch 2.0's announcement: 163 networks on an A100 gained 21 % in fp32 and 51 % in AMP.
_OF_COMPILED_16_BITS = Prior(-0.2, 0.2)


def script_bits(precision: str) -> str:
    """The bits of a precision, '32' or '16', by which effects of scripts, eras and architectures differ."""
    return "32" if precision == "fp32" else "16"


def fourth(values: Floats) -> Floats:
    """The values to the fourth power: NumPy's power takes twenty times as long, which slows fits down."""
    squares: Floats = values * values
    return squares * squares
