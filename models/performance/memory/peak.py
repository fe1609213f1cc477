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
    step_memory,
)
from advisor.models.performance.memory.table import bundled_profile

BUNDLED = "memory_model.json"
# The driver keeps 1.5 to 2.5 % of a card for itself: a T4 of 15,360 MiB offers 15,095.
_OFFERED_SHARE = 0.98
# The model is calibrated on training of networks of images. Elsewhere its doubt is so many times as
# large: 95 % of public peaks of other steps and inputs lie below the 90 % bound then.
_ELSEWHERE = 1.6
# A batch of more rows than this is no memory question.
_LARGEST_BATCH = 2**20
UPPER_CONFIDENCE = 0.95


class Verdict(StrEnum):
    """The verdict on a GPU: above the upper bound, between the bounds, or below the lower one."""

    FITS = "fits"
    MAY_NOT_FIT = "may not fit"
    DOES_NOT_FIT = "does not fit"


class PeakModel(Struct, frozen=True, kw_only=True):
    """Peak = context + what the allocator has reserved, times an error.

    `errors` are sorted quantiles of log(measured / predicted), of networks of families that the constant had
    not seen."""

    context_mib: float
    errors: tuple[float, ...]
    trained_on: str

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Factors of the lower and upper one-sided bound, at a confidence from 0.5 up to 1.

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
        """The model with errors `factor` times as large: for what it was not calibrated on."""
        return replace(self, errors=tuple(factor * entry for entry in self.errors))


class GpuPeak(Struct, frozen=True, kw_only=True):
    """Peak GPU memory of a step in MiB, as nvidia-smi shows it, with one-sided bounds.

    `step` is what torch reserves, `context_mib` CUDA's own; the two add up to the median. `widened` says how
    many times as large the doubt was taken as where it was calibrated."""

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
        """Whether such steps were measured."""
        return self.widened == 1.0

    @property
    def overhead_mib(self) -> float:
        """MiB that the allocator takes beside the tensors."""
        return self.step.spare_mib

    def probability_fits(self, memory_mib: float) -> float:
        """The probability that the step runs on a card of that much memory."""
        return self.probability_within(usable_mib(memory_mib))

    def verdict(self, memory_mib: float) -> Verdict:
        """Against what the card's driver leaves to a process.

        On a full card the allocator gives back what it has spare and tries again: only what tensors take must
        fit."""
        usable = usable_mib(memory_mib)
        if self.upper_mib <= usable:
            return Verdict.FITS
        share = (self.median_mib - self.step.spare_mib) / self.median_mib
        least = self.lower_mib * share
        return Verdict.MAY_NOT_FIT if least <= usable else Verdict.DOES_NOT_FIT


class Question(Struct, frozen=True, kw_only=True):
    """The question of `advisor memory`; `pixels` is the side of its images, None for the network's own."""

    reference: str
    conditions: Conditions
    pixels: int | None
    confidence: float


class OnGpu(Struct, frozen=True, kw_only=True):
    """One GPU: `largest_batch` is None where not even one row surely fits."""

    name: str
    memory_mib: float
    verdict: Verdict
    probability: float
    largest_batch: int | None


class WhatIf(Struct, frozen=True, kw_only=True):
    """The step that was asked for, with one thing changed."""

    change: str
    peak: GpuPeak
    largest_batches: tuple[int | None, ...]


class MemoryAnswer(Struct, frozen=True, kw_only=True):
    """The peak, every GPU (smallest first) and what a change would bring, in the same order."""

    question: Question
    traced: str
    peak: GpuPeak
    gpus: tuple[OnGpu, ...]
    what_ifs: tuple[WhatIf, ...]


def gpu_peak(profile: MemoryProfile, conditions: Conditions, confidence: float = UPPER_CONFIDENCE) -> GpuPeak:
    """The peak of a profiled network; `UsageError` where the step is not known."""
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
    """The peak of a whole training step, an upper bound for less; None for such a step."""
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
    """The largest batch whose upper bound fits the card; None where not even one row does."""
    usable = usable_mib(memory_mib)

    def fits(batch: int) -> bool:
        wanted = replace(conditions, batch_size=batch)
        return gpu_peak(profile, wanted, confidence).upper_mib <= usable

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
    """The smallest card in MiB that a workload of a bundled network surely fits, with momentum.

    Raises `UsageError` for an unknown network, or for preprocessing."""
    return _needed_card_mib(
        workload.network, workload.input, workload.task, workload.batch_size, workload.precision
    )


@lru_cache(maxsize=4096)  # a service is asked for the same sizes time and again
def _needed_card_mib(
    network: str, size: str | None, task: Task, batch_size: int, precision: Precision
) -> float:
    conditions = Conditions(task=task, batch_size=batch_size, precision=precision)
    return card_mib(gpu_peak(bundled_profile(network, size), conditions).upper_mib)


def usable_mib(card: float) -> float:
    """MiB that a process can take of a card with `card` MiB in its data sheet or nvidia-smi."""
    return _OFFERED_SHARE * card


def card_mib(usable: float) -> float:
    """The card that offers so much: the inverse of `usable_mib`."""
    return usable / _OFFERED_SHARE


@cache
def bundled_peak_model() -> PeakModel:
    """The one that ships; `DataError` when the file is missing or damaged."""
    return convert(json.loads(read_bundled(BUNDLED)), PeakModel)
