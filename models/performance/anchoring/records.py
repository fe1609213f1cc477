"""What a user measured: the seconds of one step on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from advisor.domain import Gpu, Precision, Task, require_positive
from models.performance.networks import Floats
from models.performance.step_work import chip

# A card whose bandwidth differs more is another card of the same chip.
_SAME_CARD = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTrial:
    """Seconds of one step of a network alone on `gpu`, PyTorch eager.

    `peak_mib` is what torch took from the GPU (None: not known), `origin` the file and row that
    a message names.
    """

    task: Task
    precision: Precision
    batch_size: int
    step_seconds: float
    gpu: Gpu
    peak_mib: float | None
    origin: str

    def __post_init__(self) -> None:
        require_positive(
            batch_size=self.batch_size, step_seconds=self.step_seconds, peak_mib=self.peak_mib
        )


class Places(NamedTuple):
    """Where steps are measured or asked for: a card and a batch size each, of equal length."""

    cards: tuple[str, ...]
    doublings: Floats


def card(gpu: Gpu) -> str:
    """'A100/1555': cards of one chip with another memory are two."""
    return f"{chip(gpu.name).casefold()}/{gpu.memory_gb_per_second:.0f}"


def is_same_card(one: Gpu, other: Gpu) -> bool:
    """Whether a step on one tells the other's: same chip and memory."""
    ratio = one.memory_gb_per_second / other.memory_gb_per_second
    return chip(one.name).casefold() == chip(other.name).casefold() and (
        abs(ratio - 1) <= _SAME_CARD
    )


def places(gpus: Sequence[Gpu], batch_sizes: Sequence[float]) -> Places:
    """The places of steps on `gpus` at `batch_sizes`, one each."""
    return Places(tuple(map(card, gpus)), np.log2(np.asarray(batch_sizes, dtype=float)))
