"""What `advisor memory` is asked, and what it answers: records without logic."""

from __future__ import annotations

from advisor.records import dataclass
from models.performance.memory.answer import GpuPeak, Verdict
from models.performance.memory.step import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What `advisor memory` is asked; `pixels` is the side of its images, None for its own."""

    reference: str
    conditions: Conditions
    pixels: int | None
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGpu:
    """One GPU: `largest_batch` is None where not even one row surely fits."""

    name: str
    memory_mib: float
    verdict: Verdict
    probability: float
    largest_batch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The same step with one thing changed."""

    change: str
    peak: GpuPeak
    largest_batches: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    """The peak, every GPU (smallest first) and what a change would bring, in the same order."""

    question: Question
    traced: str
    peak: GpuPeak
    gpus: tuple[OnGpu, ...]
    what_ifs: tuple[WhatIf, ...]
