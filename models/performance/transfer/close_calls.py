"""The cheapest candidate that reaches a target, and when one trial should settle it first.

Candidates are looked at from the cheapest on. Where the target lies well inside of what a
candidate is predicted to reach, or well outside, the prediction decides. In between it is a close
call, and one trial of that candidate tells. A trial is worth the chance that the prediction decides
wrongly, times what that costs: the dearer candidate that would be taken in its place, or the price
of one that then misses the target. What worth is enough follows from a budget of trials a question,
on questions about networks that the predictions were held out from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.records import dataclass
from models.performance.networks import Floats

NONE = -1
NEVER = np.inf
# A logistic curve with this slope stays within 0.01 of the normal distribution.
_LOGISTIC = 1.702
_LIMITS = np.concatenate([np.geomspace(1e-4, 10.0, 80), [NEVER]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """q questions about c candidates, sorted by price.

    `log_rates` and `deviations` (q, c) are the predictions, `log_targets` (q,) what is asked. A
    candidate with deviation 0 was measured; one with log rate -inf cannot run the workload.
    `usd_per_hour` (c,) does not fall.
    """

    log_rates: Floats
    deviations: Floats
    log_targets: Floats
    usd_per_hour: Floats

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
    questions: Questions,
    least_margin: float,
    least_worth: float = NEVER,
    truth: Floats | None = None,
) -> Decisions:
    """Choose for every question the cheapest candidate by at least `least_margin` deviations.

    0 chooses by the median; 1.28 by the bound that nine in ten exceed. A candidate of whom a trial
    is worth more than `least_worth` is tried first, and then `truth` (q, c; log rates) decides.
    """
    count = len(questions.log_targets)
    chosen = np.full(count, NONE, dtype=np.int64)
    trials = np.zeros(count, dtype=np.int64)
    worth = trial_worth(questions, least_margin)
    for candidate in range(questions.log_rates.shape[1]):
        still = chosen == NONE
        margins = questions.margins(candidate)
        if truth is not None:
            tried = still & (worth[:, candidate] > least_worth)
            trials += tried
            reached = truth[:, candidate] >= questions.log_targets
            margins = np.where(tried, np.where(reached, np.inf, -np.inf), margins)
        chosen[still & (margins >= least_margin)] = candidate
    return Decisions(chosen, trials)


def trial_worth(questions: Questions, least_margin: float) -> Floats:
    """What one trial of each candidate is expected to save, in units of its price, (q, c)."""
    margins = np.stack(
        [questions.margins(one) for one in range(questions.log_rates.shape[1])], axis=1
    )
    return worth_of_trials(_chances(margins), margins >= least_margin, questions.usd_per_hour)


def worth_of_trials(chances: Floats, taken: NDArray[np.bool_], usd_per_hour: Floats) -> Floats:
    """What one trial of each candidate is expected to save, in units of its price, (q, c).

    `chances` (q, c) are those of reaching the target, `taken` (q, c) says whose prediction is
    enough to be chosen, `usd_per_hour` (c,) does not fall. A candidate that is taken costs its
    price where it misses; one that is turned down what the next taken one costs more, or its
    own price where none is taken: then it is the answer that is missed.
    """
    worth = np.zeros(chances.shape)
    wrong = np.where(taken, 1.0 - chances, chances)
    # What is taken when all from here on are turned down: nothing, which costs the answer.
    dearer = np.full(len(chances), np.nan)
    for candidate in reversed(range(len(usd_per_hour))):
        usd = usd_per_hour[candidate]
        overspend = np.where(np.isnan(dearer), 1.0, dearer / usd - 1.0)
        here = taken[:, candidate]
        worth[:, candidate] = wrong[:, candidate] * np.where(here, 1.0, overspend)
        dearer = np.where(here, usd, dearer)
    return worth


def _chances(margins: Floats) -> Floats:
    """The chance of reaching the target; 0 or 1 where that is known."""
    finite = np.clip(margins, -400.0, 400.0)
    chances = 1.0 / (1.0 + np.exp(-_LOGISTIC * finite))
    return np.where(np.isposinf(margins), 1.0, np.where(np.isneginf(margins), 0.0, chances))


def worth_limit(
    held_out: Questions, truth: Floats, least_margin: float, trials_per_question: float
) -> float:
    """The least worth of a trial that keeps within a budget of trials on held-out questions."""
    for limit in _LIMITS:
        if decide(held_out, least_margin, limit, truth).trials.mean() <= trials_per_question:
            return float(limit)
    return NEVER
