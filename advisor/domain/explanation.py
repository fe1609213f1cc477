"""Why a prediction is what it is. Imported only by what explains: most answers do without."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from advisor.domain.words import Stage


class Distance(Struct, frozen=True, kw_only=True):
    """The distance of one fact of a prediction from the measured rows.

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
    """The gain of a little more of one resource in the median rate, in samples per second.

    `bottleneck` is what binds then.
    """

    resource: str
    step: str
    samples_per_second: float
    percent: float
    bottleneck: Stage


class Explanation(Struct, frozen=True, kw_only=True):
    """The stage that binds and its own rate, the stage that comes next (None: there is no other), the
    gain of more of each resource, and the distance from the measured rows."""

    bottleneck: Stage
    bottleneck_rate: float
    next_stage: Stage | None
    next_rate: float | None
    gains: tuple[Gain, ...]
    distances: tuple[Distance, ...]
