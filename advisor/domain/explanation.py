"""Why a prediction is what it is. Imported only by what explains: most answers do without."""

from __future__ import annotations

from typing import Any

from advisor.domain.words import Stage
from advisor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far one fact of a prediction lies from what was measured.

    `times` is the fact over the nearest measured one, 1 inside of the measured range; None where
    no number says it. `matters` is False where the rate hardly depends on the `stage`.
    """

    subject: str
    stage: Stage
    matters: bool
    inside: bool
    times: float | None
    detail: Any  # a message, or a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a little more of one resource brings to the likely rate, in samples per second.

    `bottleneck` is what binds then.
    """

    resource: str
    step: str
    samples_per_second: float
    percent: float
    bottleneck: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Which stage binds at what rate of its own, which one comes next (None: there is no other),
    what more of each resource would bring, and how far from the measured this is.
    """

    bottleneck: Stage
    bottleneck_rate: float
    next_stage: Stage | None
    next_rate: float | None
    gains: tuple[Gain, ...]
    distances: tuple[Distance, ...]
