"""The form: which named numbers add up to the logs of a row's seconds.

    T = exp(offset) * (compute + memory + launch)      seconds a sample
    compute = work of the network / peak of the unit, memory = its traffic / bandwidth,
    launch  = launches of the network / batch size

The sum, and not a power mean: a whole network has layers of both kinds, one after the other.
All amounts are fitted, with the physics as priors: arithmetic is the same in every precision, a
16-bit network moves little more than half of the bytes, and whatever cannot be told from the
measured GPUs falls back to its prior's mean. Priors are round numbers of what such effects are
(several per cent between hosts, a tenth between GPUs of one data sheet or releases of libraries).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from advisor.domain import Gpu
from models.performance.datasheet.records import RateRow
from models.performance.step_work import HALF, Stack, Unit, capability, unit_of

PARTS = ("compute", "memory", "launch", "offset")
# Of a row that has no data sheet: what an ordinary card has, with a wide prior around it.
_TYPICAL_TFLOPS, _TYPICAL_GB_PER_SECOND = 30.0, 500.0
# Half of an SM's fp32 lanes also do its integer work on these chips (NVIDIA's GA102 white paper,
# "GA10x streaming multiprocessor"): a data sheet's rate then stands for 1/sqrt(2) of it.
_SHARED_LANES, _LANES = frozenset({8.6, 8.7, 8.9}), math.log(2) / 2

# (start of the name, mean, standard deviation) of logs; the first that fits counts.
_PRIORS: tuple[tuple[str, float, float], ...] = (
    ("compute//", 0.0, 5.0),
    ("compute/network/", 0.0, 2.0),
    ("compute/task/", 0.0, 0.7),
    ("compute/network task/", 0.0, 0.25),
    ("compute/workload/", 0.0, 0.2),
    ("compute/tensor cores", -0.5, 0.4),
    ("compute/unit/", 0.0, 0.25),
    ("compute/chip/", 0.0, 0.12),
    ("compute/converted", 0.15, 0.15),
    ("compute/unlisted/", -math.log(_TYPICAL_TFLOPS), 1.0),
    ("memory//", math.log(_TYPICAL_GB_PER_SECOND) - 1, 5.0),
    ("memory/network/", 0.0, 2.0),
    ("memory/task/", 0.0, 0.7),
    ("memory/network task/", 0.0, 0.25),
    ("memory/workload/", 0.0, 0.2),
    ("memory/16-bit", -0.5, 0.2),
    ("memory/chip/", 0.0, 0.08),
    ("memory/unlisted/", -math.log(_TYPICAL_GB_PER_SECOND), 1.0),
    ("launch//", math.log(8.0), 0.5),
    ("launch/network/", 0.0, 0.4),
    ("launch/task/", 0.0, 0.5),
    ("offset/gpu/", 0.0, 0.12),
    ("offset/gpu precision/", 0.0, 0.05),
    ("offset/gpu ", 0.0, 0.04),
    ("offset/source/", 0.0, 0.06),
    ("offset/libraries/", 0.0, 0.12),
    ("offset/compiled kind/", -0.1, 0.2),
    ("offset/compiled newer kind/", 0.0, 0.15),
    ("offset/compiled", 0.0, 0.12),
)


class Prior(NamedTuple):
    """Mean and standard deviation of a log before any row is seen."""

    mean: float
    sigma: float


def prior(name: str) -> Prior:
    """The prior of an effect by its name; KeyError for a name that no row has."""
    for start, mean, sigma in _PRIORS:
        if name.startswith(start):
            return Prior(mean, sigma)
    raise KeyError(f"no prior for the effect {name}")


class RowEffects(NamedTuple):
    """Names by part (in the order of PARTS), and the parts' constants from the data sheet."""

    names: tuple[tuple[str, ...], ...]
    constants: tuple[float, float, float]


def row_effects(row: RateRow) -> RowEffects:
    """What adds up to the logs of milliseconds a sample of `row`."""
    compute, compute_constant = _compute(row)
    memory, memory_constant = _memory(row)
    launch = ("launch//", f"launch/network/{row.network}", f"launch/task/{row.task}")
    return RowEffects(
        (compute, memory, launch, tuple(_offsets(row))),
        (compute_constant, memory_constant, -math.log(row.batch_size)),
    )


def _amounts(part: str, row: RateRow) -> tuple[str, ...]:
    return (
        f"{part}//",
        f"{part}/network/{row.network}",
        f"{part}/task/{row.task}",
        f"{part}/network task/{row.network}/{row.task}",
        f"{part}/workload/{row.workload}",
    )


def _compute(row: RateRow) -> tuple[tuple[str, ...], float]:
    amounts = _amounts("compute", row)
    if row.gpu is None:
        return (*amounts, f"compute/unlisted/{row.gpu_name}/{row.precision}"), 0.0
    unit = unit_of("conv_3x3", row.precision, row.gpu, Stack(tf32=row.software.tf32))
    name = "tf32" if unit.tf32 else unit.name
    kind = ("compute/tensor cores",) if unit.name == "tensor" else ()
    if _converts(row):
        kind = ("compute/converted",)
    chip = f"compute/chip/{row.gpu.compute_capability}/{name}"
    return (*amounts, *kind, f"compute/unit/{name}", chip), -_log_peak(row.gpu, unit)


def _converts(row: RateRow) -> bool:
    """Whether 16-bit numbers only cost here: the chip computes them slower than 32-bit ones (a
    64th on consumer Pascal), so libraries convert them and compute in fp32. PyTorch on a Titan Xp
    takes 1.05 to 1.26 times as long in half precision as in single (torchvision_gpu_benchmark)."""
    gpu = row.gpu
    if row.precision != HALF or gpu is None or gpu.fp16_tflops is None:
        return False
    return gpu.fp16_tflops < gpu.fp32_tflops


def _log_peak(gpu: Gpu, unit: Unit) -> float:
    shared = unit.name == "simt" and capability(gpu) in _SHARED_LANES
    return math.log(unit.tflops) - _LANES * shared


def _memory(row: RateRow) -> tuple[tuple[str, ...], float]:
    narrow = ("memory/16-bit",) if row.precision == HALF and not _converts(row) else ()
    names = (*_amounts("memory", row), *narrow)
    if row.gpu is None:
        return (*names, f"memory/unlisted/{row.gpu_name}"), 0.0
    chip = f"memory/chip/{row.gpu.compute_capability}"
    return (*names, chip), -math.log(row.gpu.memory_gb_per_second)


def _offsets(row: RateRow) -> Iterable[str]:
    gpu, software = row.gpu_name, row.software
    yield f"offset/gpu/{gpu}"
    yield f"offset/gpu precision/{gpu}/{row.precision}"
    yield f"offset/gpu task/{gpu}/{row.task}"
    yield f"offset/gpu network/{gpu}/{row.network}"
    yield f"offset/source/{row.source}"
    yield f"offset/libraries/{software.name}/{software.libraries}/{row.precision}"
    if software.compiled:
        yield f"offset/compiled kind/{row.task}/{row.precision}"
        yield f"offset/compiled workload/{row.workload}"
    if software.compiled and software.newer:
        yield f"offset/compiled newer kind/{row.task}/{row.precision}"
        yield f"offset/compiled newer workload/{row.workload}"
