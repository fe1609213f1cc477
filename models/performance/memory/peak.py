"""The memory that a GPU shows for a step: the replayed peak plus the CUDA context, with the error of both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import StrEnum
from functools import cache, lru_cache

import numpy as np
from msgspec import Struct, convert
from msgspec.structs import replace

from advisor.domain import Precision, Task, Workload
from advisor.models.bundled import read_bundled
from advisor.models.performance.memory.steps import (
    Conditions,
    MemoryProfile,
    Optimizer,
    StepMemory,
    bundled_profile,
    step_memory,
)

BUNDLED = "memory_model.json"
# The driver keeps 1.5 to 2.5 % of a card for itself: a T4 of 15,360 MiB offers 15,095.
_OFFERED_SHARE = 0.98
# The model is calibrated on training image networks. Elsewhere its errors are multiplied by this factor,
# with which 95 % of published peaks of other steps and inputs lie below the 90 % bound.
_ELSEWHERE = 1.6
# The largest batch that `largest_batch` tries.
_LARGEST_BATCH = 2**20
UPPER_CONFIDENCE = 0.95


class Verdict(StrEnum):
    """The verdict on a step and a GPU, whose memory is above, between or below the bounds of the peak."""

    FITS = "fits"
    MAY_NOT_FIT = "may not fit"
    DOES_NOT_FIT = "does not fit"


class PeakModel(Struct, frozen=True, kw_only=True):
    """Peak = (context + memory that the allocator reserves) times an error.

    `errors` are sorted quantiles of log(measured / predicted) on networks of families that `context_mib` was
    not fitted on."""

    context_mib: float
    errors: tuple[float, ...]
    trained_on: str

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Factors of the lower and upper one-sided bounds, at a confidence from 0.5 to 1.

        Split conformal: the ceil((n + 1) confidence)-th of n errors, or the largest."""
        count = len(self.errors)
        rank = min(count, math.ceil((count + 1) * confidence - 1e-9)) - 1
        high, low = max(0.0, self.errors[rank]), min(0.0, self.errors[count - 1 - rank])
        return math.exp(low), math.exp(high)

    def probability_below(self, factor: float) -> float:
        """The probability that the peak stays within `factor` times the median, never 0 or 1."""
        count = len(self.errors)
        ranks = np.arange(1, count + 1) / (count + 1)
        least = 0.5 / (count + 1)
        margin = math.log(factor) if factor > 0 else -math.inf
        return float(np.interp(margin, self.errors, ranks, left=least, right=1 - least))

    def widened(self, factor: float) -> PeakModel:
        """The model with errors `factor` times as large, for steps on which it was not calibrated."""
        return replace(self, errors=tuple(factor * entry for entry in self.errors))


class GpuPeak(Struct, frozen=True, kw_only=True):
    """Peak GPU memory of a step in MiB, as nvidia-smi shows it, with one-sided bounds.

    `step` is what torch reserves and `context_mib` what CUDA takes; the two add up to the median. `widened`
    is the factor by which the errors of the calibration were multiplied."""

    step: StepMemory
    context_mib: float
    lower_mib: float
    median_mib: float
    upper_mib: float
    confidence: float
    widened: float
    probability_within: Callable[[float], float]

    @property
    def calibrated(self) -> bool:
        """True if the model was calibrated on such steps."""
        return self.widened == 1.0

    @property
    def overhead_mib(self) -> float:
        """MiB that the allocator takes in addition to the tensors."""
        return self.step.spare_mib

    def probability_fits(self, memory_mib: float) -> float:
        """The probability that the step runs on a card of `memory_mib`."""
        return self.probability_within(usable_mib(memory_mib))

    def verdict(self, memory_mib: float) -> Verdict:
        """The verdict on the step and the memory that the card's driver leaves to a process.

        On a full card the allocator frees its spare memory and tries again, so only the tensors have to
        fit."""
        usable = usable_mib(memory_mib)
        if self.upper_mib <= usable:
            return Verdict.FITS
        share = (self.median_mib - self.step.spare_mib) / self.median_mib
        least = self.lower_mib * share
        return Verdict.MAY_NOT_FIT if least <= usable else Verdict.DOES_NOT_FIT


class Question(Struct, frozen=True, kw_only=True):
    """The question of `advisor memory`; `pixels` is the side of its images, None for the usual one. `network`
    and `input` are what a bundled network's name and size were taken as."""

    reference: str
    conditions: Conditions
    pixels: int | None
    confidence: float
    network: str | None = None
    input: str | None = None


class OnGpu(Struct, frozen=True, kw_only=True):
    """The verdict on one GPU; `largest_batch` is None where the upper bound of one row does not fit."""

    name: str
    memory_mib: float
    verdict: Verdict
    probability: float
    largest_batch: int | None


class WhatIf(Struct, frozen=True, kw_only=True):
    """The step of the question with one change, and the largest batch of each GPU then."""

    change: str
    peak: GpuPeak
    largest_batches: tuple[int | None, ...]


class MemoryAnswer(Struct, frozen=True, kw_only=True):
    """The peak, the verdict on every GPU (smallest first), and the peak after each possible change."""

    question: Question
    traced: str
    peak: GpuPeak
    gpus: tuple[OnGpu, ...]
    what_ifs: tuple[WhatIf, ...]


def gpu_peak(profile: MemoryProfile, conditions: Conditions, confidence: float = UPPER_CONFIDENCE) -> GpuPeak:
    """The peak of a profiled network; `UsageError` if its profile lacks the step."""
    step = step_memory(profile, conditions)
    plain = conditions.task is Task.TRAINING and not conditions.checkpointing
    calibrated = plain and profile.traced == "fake" and profile.takes_images
    wider = 1.0 if calibrated else _ELSEWHERE
    model = bundled_peak_model().widened(wider)
    median = model.context_mib + step.reserved_mib
    low, high = model.bounds(confidence)
    surer = _training_peak(profile, conditions, confidence) if wider > 1 else None
    upper = high * median if surer is None else min(high * median, max(median, surer.upper_mib))

    def probability_within(mib: float) -> float:
        own = model.probability_below(mib / median)
        return own if surer is None else max(own, surer.probability_within(mib))

    return GpuPeak(
        step=step,
        context_mib=model.context_mib,
        lower_mib=low * median,
        median_mib=median,
        upper_mib=upper,
        confidence=confidence,
        widened=wider,
        probability_within=probability_within,
    )


def _training_peak(profile: MemoryProfile, conditions: Conditions, confidence: float) -> GpuPeak | None:
    """The peak of the plain training step, which bounds that of lesser steps; None if it is the step."""
    training = conditions.task is Task.TRAINING
    plain = replace(
        conditions,
        task=Task.TRAINING,
        checkpointing=False,
        keeps_graph=False,
        optimizer=conditions.optimizer if training else Optimizer.SGD,
    )
    if plain == conditions or plain.step not in profile.steps:
        return None
    return gpu_peak(profile, plain, confidence)


def largest_batch(
    profile: MemoryProfile, conditions: Conditions, memory_mib: float, confidence: float = UPPER_CONFIDENCE
) -> int | None:
    """The largest batch whose upper bound fits the card; None where that of one row does not."""
    usable = usable_mib(memory_mib)
    return largest_that(
        lambda size: gpu_peak(profile, replace(conditions, batch_size=size), confidence).upper_mib <= usable
    )


def largest_that(fits: Callable[[int], bool]) -> int | None:
    """The largest batch that fits, where every smaller one does, too; None where not even one row does."""
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
    """MiB of the smallest card that the upper bound of a bundled network's workload fits, with momentum.

    Raises `UsageError` for an unknown network, or for preprocessing."""
    return _needed_card_mib(
        workload.network, workload.input, workload.task, workload.batch_size, workload.precision
    )


@lru_cache(maxsize=4096)  # a service computes the same sizes again and again
def _needed_card_mib(
    network: str, size: str | None, task: Task, batch_size: int, precision: Precision
) -> float:
    conditions = Conditions(task=task, batch_size=batch_size, precision=precision)
    return card_mib(gpu_peak(bundled_profile(network, size), conditions).upper_mib)


def usable_mib(card: float) -> float:
    """MiB that a process can use on a card that has `card` MiB by its data sheet or nvidia-smi."""
    return _OFFERED_SHARE * card


def card_mib(usable: float) -> float:
    """MiB of the card that offers `usable` MiB to a process: the inverse of `usable_mib`."""
    return usable / _OFFERED_SHARE


@cache
def bundled_peak_model() -> PeakModel:
    """The peak model that ships; `DataError` if its file is missing or damaged."""
    return convert(json.loads(read_bundled(BUNDLED)), PeakModel)
