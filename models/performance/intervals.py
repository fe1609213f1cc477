"""Intervals from held-out residuals: split conformal quantiles with groups that borrow.

A residual is log(observed rate / predicted rate) of a row that the prediction was not fitted
on. A one-sided bound at confidence c is the ceil((n + 1) c)-th smallest residual of n (Vovk et
al., split conformal prediction), so n residuals carry confidences up to n / (n + 1): nine are
the fewest for 90 %."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from advisor.models.performance.networks import Floats

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


GAMMA_RANGE = (1.0, 20.0)
_LOG_2 = float(np.log(2.0))


def exponents(training: Floats, batches_ahead: Floats, parameters: Mapping[str, float]) -> Floats:
    """How sharply the stages of each request limit each other, (n,); `training` is 0 or 1.

    A real GPU waits for batches whose times scatter, and loaders wait for room to put them. A
    queue that holds K of them besides the one that is computed on passes (K + 1) / (K + 2) of
    what either side alone does where both are equally fast (M/M/1/K), which a smooth minimum does
    with the exponent log 2 / log((K + 2) / (K + 1)): 1 without any, 1.7 for one, 6.6 for eight.
    """
    queue = _LOG_2 / np.log1p(1 / (batches_ahead + 1))
    beside_gpu = queue * np.exp(parameters["join/queue"] + parameters["join/training"] * training)
    gamma = np.where(batches_ahead > 0, beside_gpu, np.exp(parameters["join/gamma"]))
    return np.asarray(np.clip(gamma, *GAMMA_RANGE))


def smooth_minimum(rates: Floats, gamma: float | Floats) -> tuple[Floats, Floats]:
    """`(sum_k R_k^-gamma)^(-1/gamma)` over the columns of `rates` (n, stages), and weights.

    `gamma` is one number or (n,). A stage that a request does not have is infinite. The weights
    (n, stages) are the shares d log R / d log R_k; they sum to 1, and the largest is the
    bottleneck's.
    """
    joined, weights = smooth_log_minimum(logs_by_stage(rates), gamma)
    return np.exp(joined), weights.T


def logs_by_stage(rates: Floats) -> Floats:
    """Logarithms (stages, n) of `rates` (n, stages): reductions over the stages of a request take
    nine times as long where these stand side by side."""
    return np.asarray(np.log(np.ascontiguousarray(rates.T)))


def smooth_log_minimum(logs: Floats, gamma: float | Floats) -> tuple[Floats, Floats]:
    """The same of logarithms (stages, ...), as a logarithm; weights (stages, ...)."""
    # In logarithms: NumPy's power takes several times as long as exp and log together.
    lowest = logs.min(axis=0)
    powers = np.exp(gamma * (lowest - logs))
    total = powers.sum(axis=0)
    powers /= total
    return lowest - np.log(total) / gamma, powers
