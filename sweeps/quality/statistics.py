"""How well a rate is known: a bootstrap interval, and when a trial has measured enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from advisor.domain.steps import are_even, block_length, typical_step_seconds, without_accidents
from sweeps.quality.timing import count_warmup_steps, is_steady

CONFIDENCE = 0.95
_RESAMPLES = 300
_FEWEST_BLOCKS = 5
_MOST_LOOKED_AT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The typical step and where it lies with 95 % confidence, in seconds."""

    lower: float
    typical: float
    upper: float

    @property
    def relative_error(self) -> float:
        """Half the width, as a share of the typical step."""
        return (self.upper - self.lower) / 2 / self.typical


def step_interval(step_seconds: Sequence[float], period: int = 1) -> Interval | None:
    """The interval of `typical_step_seconds`, by the moving-block bootstrap.

    Steps that come in bunches are not independent: blocks of whole loader rounds are drawn,
    not steps (Kuensch 1989, Annals of Statistics 17:1217-1241). None where there are fewer than
    five blocks to draw from. The draws are the same at every call.
    """
    import numpy as np

    kept = np.array(without_accidents(step_seconds, period))
    length = 1 if kept.size and are_even(kept.tolist()) else block_length(kept.size, period)
    blocks = kept.size // length
    if blocks < _FEWEST_BLOCKS:
        return None
    sums = np.concatenate([[0.0], np.cumsum(kept)])
    means = (sums[length:] - sums[:-length]) / length
    draw = np.random.default_rng(0).integers(means.size, size=(_RESAMPLES, blocks))
    medians = np.median(means[draw], axis=1)
    tail = (1 - CONFIDENCE) / 2
    lower, upper = np.quantile(medians, [tail, 1 - tail]).tolist()
    typical = typical_step_seconds(step_seconds, period)
    wider = _of_few(blocks)
    return Interval(
        lower=typical - wider * max(0.0, typical - lower),
        typical=typical,
        upper=typical + wider * max(0.0, upper - typical),
    )


def _of_few(blocks: int) -> float:
    """By how much a bootstrap of few blocks is too narrow: Student's quantile over the normal one,
    and the deviation with one degree of freedom less. The quantile is Cornish and Fisher's
    (Abramowitz and Stegun, 26.7.5); 1.5 for five blocks, 1.1 for twenty.
    """
    normal, free = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2), blocks - 1
    student = (
        normal
        + (normal**3 + normal) / (4 * free)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * free**2)
    )
    return student / normal * math.sqrt(blocks / free)


def steady_part(step_seconds: Sequence[float], period: int = 1) -> Sequence[float]:
    """The steps after warm-up."""
    return step_seconds[count_warmup_steps(step_seconds, period) :]


def measured_enough(
    step_seconds: Sequence[float], *, rel_error: float, min_steps: int, period: int = 1
) -> bool:
    """Whether the steady steps are at least `min_steps`, do not drift, and give an interval
    whose half width is at most `rel_error` of the typical step."""
    steady = steady_part(step_seconds[-_MOST_LOOKED_AT:], period)
    if len(steady) < min_steps or not is_steady(steady, period):
        return False
    interval = step_interval(steady, period)
    return interval is not None and interval.relative_error <= rel_error
