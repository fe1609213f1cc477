"""Rows of a file that a user measured, and why others are none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from advisor.domain import Gpu, Observation, ScalingObservation
from advisor.errors import UsageError

SCHEMA = "advisor.anchor/1"
WAY_OUT = "--anchor takes what `advisor measure --out` or `advisor measurements export` wrote"
# Of a run, its first steps say how it started; fewer than these say nothing of how it goes on.
FEWEST_STEPS = 3
# Nobody measures a step of a day: such a number is in another unit, or damaged.
LONGEST_STEP_SECONDS = 86_400.0
TOO_LONG = "a step of more than a day is no measured one; times are in seconds"


class SheetOf(Protocol):
    """Finds the data sheet of a card by the name and size that CUDA reports."""

    def __call__(self, name: str, *, memory_mib: float | None = None, sm_count: int | None = None) -> Gpu:
        """`UsageError` where there is none, and for a slice of a card."""


class RefusedRow(Struct, frozen=True):
    """A row that is no anchor. `is_notable`: worth a word even where other rows are good."""

    origin: str
    reason: str
    is_notable: bool


class AnchorFile(Struct, frozen=True):
    """All of one file. `captured` and `input_shape` describe its network where it says so.

    An observation's network is "" where a script does not name it. `scaling` says what several
    ranks kept of their rate.
    """

    path: Path
    observations: tuple[Observation, ...]
    refused: tuple[RefusedRow, ...]
    input_shape: tuple[int, ...] | None = None
    captured: Mapping[str, Any] = field(default_factory=dict)
    scaling: tuple[ScalingObservation, ...] = ()


def no_anchor(path: Path, why: str, hint: str = WAY_OUT) -> UsageError:
    """A file that cannot be used, in one line with the way out."""
    return UsageError("{path} is no anchor: {why}", hint=hint, path=path, why=why, field="anchor")
