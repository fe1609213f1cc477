"""Intervals from held-out residuals: split conformal quantiles with groups that borrow.

A residual is log(observed rate / predicted rate) of a row that the prediction was not fitted
on. A one-sided bound at confidence c is the ceil((n + 1) c)-th smallest residual of n (Vovk et
al., split conformal prediction), so n residuals carry confidences up to n / (n + 1): nine are
the fewest for 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

FEWEST = 9


class HalfWidths(NamedTuple):
    """Distances in log rate from the prediction down to `lower` and up to `upper`.

    `calibrated` is False where no group has enough residuals for the confidence; the widths
    then are the extremes seen, widened as a Gaussian's would be.
    """

    lower: float
    upper: float
    calibrated: bool


def half_widths(
    residuals: Mapping[str, Sequence[float]], groups: Sequence[str], confidence: float
) -> HalfWidths:
    """Bounds from the first of `groups`, nearest first, that is large enough.

    `residuals` are sorted lists by group. A bound never lies on the wrong side of the
    prediction: a group's bias widens the far side and does not narrow the near one.
    """
    enough = max(FEWEST, math.ceil(confidence / (1 - confidence) - 1e-9))
    for group in groups:
        values = residuals.get(group, ())
        if len(values) >= enough:
            rank = math.ceil((len(values) + 1) * confidence - 1e-9) - 1
            return HalfWidths(max(0.0, -values[-1 - rank]), max(0.0, values[rank]), True)
    return _beyond(max((residuals.get(group, ()) for group in groups), key=len), confidence)


def multipliers(standardised: Sequence[float], confidence: float) -> HalfWidths:
    """Bounds in predicted standard deviations of log *seconds*, from sorted residuals in that unit.

    Too few of them for the confidence: half as wide again as a Gaussian's.
    """
    rank = math.ceil((len(standardised) + 1) * confidence - 1e-9) - 1
    if rank >= len(standardised):
        width = 1.5 * gaussian_multiplier(confidence)
        return HalfWidths(width, width, False)
    # The upper ones are of rates that were lower than predicted.
    lower, upper = standardised[rank], -standardised[-1 - rank]
    return HalfWidths(max(0.0, lower), max(0.0, upper), True)


@lru_cache(maxsize=64)
def gaussian_multiplier(confidence: float) -> float:
    """The one-sided standard normal quantile, for doubts that no residuals describe.

    Newton's method on the error function: `statistics.NormalDist` says the same, and takes 4 ms
    to import while somebody waits.
    """
    z = 0.0
    for _ in range(60):
        excess = 0.5 * (1 + math.erf(z / math.sqrt(2))) - confidence
        step = excess * math.sqrt(2 * math.pi) * math.exp(z * z / 2)
        z -= max(-0.5, min(0.5, step))
        if abs(step) < 1e-12:
            break
    return z


def _beyond(values: Sequence[float], confidence: float) -> HalfWidths:
    """A guess where calibration ends: the spread seen, scaled to the confidence."""
    if len(values) < 2:
        return HalfWidths(math.inf, math.inf, False)
    spread = math.sqrt(sum(value * value for value in values) / len(values))
    width = max(gaussian_multiplier(confidence) * spread, max(map(abs, values)))
    return HalfWidths(width, width, False)
