"""Whether a workload fits a GPU: the traced step and the peak model joined."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache

from advisor.domain import Precision, Task, Workload
from advisor.errors import unknown_name
from advisor.records import dataclass, replace
from models.performance.memory.peak import (
    PeakModel,
    bundled_peak_model,
    card_mib,
    usable_mib,
)
from models.performance.memory.profile import MemoryProfile, bundled_profiles
from models.performance.memory.rows import row_of
from models.performance.memory.step import Conditions, StepMemory, step_memory

# The model that ships is calibrated on mixed-precision training of image classifiers. Elsewhere its
# doubt is taken to be so many times as large: a judgement, until such peaks are measured.
_WIDENED = 1.5
# A batch of more rows than this is no memory question.
_LARGEST_BATCH = 2**20
UPPER_CONFIDENCE = 0.95


class Verdict(StrEnum):
    """What is told of a GPU: above the upper bound, between the bounds, below the lower one."""

    FITS = "fits"
    MAY_NOT_FIT = "may not fit"
    DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPeak:
    """Peak GPU memory of a step in MiB, as nvidia-smi shows it, with one-sided bounds.

    `step` are the tensors; `context_mib` is CUDA's own, and `overhead_mib` what the allocator
    and workspaces take beside the tensors. The three add up to the median.
    """

    step: StepMemory
    context_mib: float
    overhead_mib: float
    lower_mib: float
    median_mib: float
    upper_mib: float
    confidence: float
    calibrated: bool
    probability_within: Callable[[float], float]

    def probability_fits(self, memory_mib: float) -> float:
        """How likely the step runs on a card of that much memory."""
        return self.probability_within(usable_mib(memory_mib))

    def verdict(self, memory_mib: float) -> Verdict:
        """Against what the card's driver leaves to a process."""
        usable = usable_mib(memory_mib)
        if self.upper_mib <= usable:
            return Verdict.FITS
        return Verdict.MAY_NOT_FIT if self.lower_mib <= usable else Verdict.DOES_NOT_FIT


def gpu_peak(
    profile: MemoryProfile, conditions: Conditions, confidence: float = UPPER_CONFIDENCE
) -> GpuPeak:
    """The peak of a profiled network; `UsageError` where the step was not traced."""
    step, calibrated = step_memory(profile, conditions), _is_calibrated(profile, conditions)
    model = _model(calibrated)
    row = row_of(profile, conditions)
    median = float(model.median_mib(row)[0])
    lower, upper = (float(bound[0]) for bound in model.bounds_mib(row, confidence))
    return GpuPeak(
        step=step,
        context_mib=model.context_mib,
        overhead_mib=median - model.context_mib - step.total_mib,
        lower_mib=lower,
        median_mib=median,
        upper_mib=upper,
        confidence=confidence,
        calibrated=calibrated,
        probability_within=lambda mib: float(model.probability_within(row, mib)[0]),
    )


def largest_batch(
    profile: MemoryProfile,
    conditions: Conditions,
    memory_mib: float,
    confidence: float = UPPER_CONFIDENCE,
) -> int | None:
    """The largest batch whose upper bound fits the card; None where not even one row does."""
    usable = usable_mib(memory_mib)

    def fits(batch: int) -> bool:
        return (
            gpu_peak(profile, replace(conditions, batch_size=batch), confidence).upper_mib <= usable
        )

    if not fits(1):
        return None
    low, high = 1, 2
    while high <= _LARGEST_BATCH and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def needed_card_mib(workload: Workload) -> float:
    """The smallest card in MiB that a workload of the zoo surely fits, training with momentum.

    Raises `UsageError` for an unknown network, or for preprocessing.
    """
    profiles = bundled_profiles()
    if workload.network not in profiles:
        raise unknown_name("network", workload.network, profiles)
    return _needed_card_mib(
        workload.network, workload.task, workload.batch_size, workload.precision
    )


@lru_cache(maxsize=4096)
def _needed_card_mib(network: str, task: Task, batch_size: int, precision: Precision) -> float:
    """Kept: a service is asked for the same sizes time and again."""
    conditions = Conditions(task=task, batch_size=batch_size, precision=precision)
    return card_mib(gpu_peak(bundled_profiles()[network], conditions).upper_mib)


def _is_calibrated(profile: MemoryProfile, conditions: Conditions) -> bool:
    sixteen = conditions.precision is not Precision.FP32
    plain = conditions.task is Task.TRAINING and not conditions.checkpointing
    return plain and sixteen and profile.traced == "fake"


def _model(calibrated: bool) -> PeakModel:
    model = bundled_peak_model()
    return model if calibrated else model.widened(_WIDENED)
