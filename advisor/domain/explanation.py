"""Why a prediction is what it is. Imported only by what explains: most answers do without."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from advisor.domain.words import Stage


class Distance(Struct, frozen=True, kw_only=True):
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


class Gain(Struct, frozen=True, kw_only=True):
    """What a little more of one resource brings to the likely rate, in samples per second.

    `bottleneck` is what binds then.
    """

    resource: str
    step: str
    samples_per_second: float
    percent: float
    bottleneck: Stage


class Explanation(Struct, frozen=True, kw_only=True):
    """Which stage binds at what rate of its own, which one comes next (None: there is no other),
    what more of each resource would bring, and how far from the measured this is.
    """

    bottleneck: Stage
    bottleneck_rate: float
    next_stage: Stage | None
    next_rate: float | None
    gains: tuple[Gain, ...]
    distances: tuple[Distance, ...]
