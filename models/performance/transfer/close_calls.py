"""The cheapest candidate that reaches a target, and when one trial should settle it first.

Candidates are looked at from the cheapest on. Where the target lies well inside of what a
candidate is predicted to reach, or well outside, the prediction decides. In between it is a close
call: one trial of that candidate tells. How close is close follows from a budget of trials a
question, on questions about networks that the predictions were held out from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.performance.networks import Floats

NONE = -1
_LIMITS = np.concatenate([[0.0], np.geomspace(0.05, 6.0, 60)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """q questions about c candidates, sorted by price.

    `log_rates` and `deviations` (q, c) are the predictions, `log_targets` (q,) what is asked. A
    candidate with deviation 0 was measured; one with log rate -inf cannot run the workload.
    """

    log_rates: Floats
    deviations: Floats
    log_targets: Floats

    def margins(self, candidate: int) -> Floats:
        """How many deviations a candidate's rate lies above the target; +-inf where measured."""
        gap = self.log_rates[:, candidate] - self.log_targets
        deviation = self.deviations[:, candidate]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = gap / deviation
        margins: Floats = np.where(deviation > 0, ratio, np.where(gap >= 0, np.inf, -np.inf))
        return margins


@dataclass(frozen=True, slots=True)
class Decisions:
    """The chosen candidate of each question (`NONE`: none reaches it), and trials made, (q,)."""

    chosen: NDArray[np.int64]
    trials: NDArray[np.int64]


def decide(
    questions: Questions, least_margin: float, close: float = 0.0, truth: Floats | None = None
) -> Decisions:
    """Choose for every question the cheapest candidate by at least `least_margin` deviations.

    0 chooses by the median; 1.28 by the bound that nine in ten exceed. A candidate whose margin
    is within +-`close` is tried first, and then `truth` (q, c; log rates) decides.
    """
    count = len(questions.log_targets)
    chosen = np.full(count, NONE, dtype=np.int64)
    trials = np.zeros(count, dtype=np.int64)
    for candidate in range(questions.log_rates.shape[1]):
        still = chosen == NONE
        margins = questions.margins(candidate)
        if truth is not None:
            tried = still & (np.abs(margins) < close)
            trials += tried
            reached = truth[:, candidate] >= questions.log_targets
            margins = np.where(tried, np.where(reached, np.inf, -np.inf), margins)
        chosen[still & (margins >= least_margin)] = candidate
    return Decisions(chosen, trials)


def close_limit(
    held_out: Questions, truth: Floats, least_margin: float, trials_per_question: float
) -> float:
    """The widest `close` that keeps within a budget of trials on held-out questions."""
    within = [
        limit
        for limit in _LIMITS
        if decide(held_out, least_margin, limit, truth).trials.mean() <= trials_per_question
    ]
    return float(within[-1]) if within else 0.0
