"""What a data sheet says of how operations of one GPU run on another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from advisor.domain import require_positive
from models.performance.networks import Floats
from models.performance.transfer.operations import CLASSES, COMPUTE_BOUND, TRANSFER


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One GPU's dense fp32 rate, memory bandwidth, boost clock and compute capability."""

    name: str
    fp32_tflops: float
    memory_gb_per_second: float
    clock_ghz: float
    generation: float

    def __post_init__(self) -> None:
        require_positive(
            generation=self.generation,
            fp32_tflops=self.fp32_tflops,
            memory_gb_per_second=self.memory_gb_per_second,
            clock_ghz=self.clock_ghz,
        )


def clock_ghz(fp32_tflops: float, cuda_cores: float) -> float:
    """The clock that a sheet's fp32 rate implies: a core does two operations a cycle."""
    return fp32_tflops * 1e12 / (2 * cuda_cores) / 1e9


def class_log_ratio(name: str, anchor: Sheet, target: Sheet) -> float:
    """Log of (seconds on the target / seconds on the anchor) that the sheets let expect.

    Arithmetic goes by fp32 rate, all else by memory bandwidth; copies from the host by the bus,
    which is the same PCIe generation until somebody measures it.
    """
    if name == TRANSFER:
        return 0.0
    if name in COMPUTE_BOUND:
        return math.log(anchor.fp32_tflops / target.fp32_tflops)
    return math.log(anchor.memory_gb_per_second / target.memory_gb_per_second)


def unmeasured_log_ratio(anchor: Sheet, target: Sheet) -> float:
    """The same for a class that nobody measured on both GPUs.

    Its kernel may be bound by anything from the memory (scales with bandwidth) to a chain of
    dependent or atomic steps (scales with the clock alone): the geometric middle of the two.
    """
    bandwidth = math.log(anchor.memory_gb_per_second / target.memory_gb_per_second)
    return 0.5 * (bandwidth + math.log(anchor.clock_ghz / target.clock_ghz))


def sheet_log_ratios(anchor: Sheet, target: Sheet) -> Floats:
    """`class_log_ratio` of all classes, (len(CLASSES),)."""
    return np.array([class_log_ratio(name, anchor, target) for name in CLASSES])
