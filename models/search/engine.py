"""Which configuration to try next, so that the cheapest one is found in few trials.

Expected improvement (Jones, Schonlau and Welch 1998) of log cost under a mixture of beliefs, times
the chance that the configuration works. Pure: the same problem and trials give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.search.kernel import Floats
from models.search.prior import (
    History,
    Posterior,
    Prior,
    learn_prior,
    posterior_of,
    prior_of_trials,
)
from models.search.working import chance_of_working

# Regret of a first guess beyond this (log: twenty times the price) is not told apart.
_WORST_REGRET = 3.0
# The kernel of a workload without history is not told by fewer trials than this.
_FEWEST_TO_LEARN = 4
# Improvements closer than this are ties, which the seed breaks.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Problem:
    """Configurations `features` (n, d) in 0..1, which of them may be tried (n,), what other
    workloads cost there, and what follows from that."""

    features: Floats
    available: np.typing.NDArray[np.bool_]
    history: History
    prior: Prior


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next trial and by which share it is expected to lower the price; None: not known yet."""

    index: int
    expected_saving: float | None
    chance_of_working: float


def problem_of(
    features: Floats, available: np.typing.NDArray[np.bool_], history: History
) -> Problem:
    """A search with its prior; raises `ValueError` where the shapes do not agree."""
    rows = len(features)
    if len(available) != rows or history.log_cost.shape[1] != rows:
        raise ValueError("features, available and history describe different configurations")
    return Problem(features, available, history, learn_prior(features, history))


def propose(
    problem: Problem, trials: Mapping[int, float | None], *, seed: int = 0
) -> Proposal | None:
    """The next trial after `trials`, log costs by configuration (None: it failed).

    None when every configuration was tried.
    """
    left = problem.available.copy()
    left[list(trials)] = False
    if not left.any():
        return None
    worked = [index for index, cost in trials.items() if cost is not None]
    failed = [index for index, cost in trials.items() if cost is None]
    chances = chance_of_working(problem.features, problem.history.worked, worked, failed)
    if worked:
        costs = np.array([trials[index] for index in worked], dtype=float)
        saving = _expected_saving(_beliefs(problem, worked, costs), float(costs.min()))
        index = _best(chances * saving, left, seed)
        return Proposal(index, float(chances[index] * saving[index]), float(chances[index]))
    index = _best(_first_guess(problem, chances, len(failed)), left, seed)
    return Proposal(index, None, float(chances[index]))


def _beliefs(problem: Problem, worked: Sequence[int], costs: Floats) -> Posterior:
    prior = problem.prior
    if not len(problem.history.log_cost) and len(worked) >= _FEWEST_TO_LEARN:
        prior = prior_of_trials(problem.features, worked, costs)
    return posterior_of(prior, worked, costs)


def _expected_saving(beliefs: Posterior, best: float) -> Floats:
    """E[max(0, best - log cost)] (n,): for small savings, a share of the price."""
    from scipy.special import ndtr

    z = (best - beliefs.means) / beliefs.deviations
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    saving: Floats = beliefs.weights @ (beliefs.deviations * (z * ndtr(z) + density))
    return saving


def _first_guess(problem: Problem, chances: Floats, failures: int) -> Floats:
    """Until something works: least expected regret, and ever more the chance of working."""
    regret = np.zeros(len(chances))
    for component in problem.prior.components:
        above = component.mean - component.mean[problem.available].min()
        regret += component.weight * np.minimum(above, _WORST_REGRET)
    guess: Floats = np.log(chances) - regret / (1 + failures)
    return guess


def _best(scores: Floats, allowed: np.typing.NDArray[np.bool_], seed: int) -> int:
    scores = np.where(allowed, scores, -np.inf)
    ties = np.flatnonzero(scores >= scores.max() - _TIE)
    return int(np.random.default_rng(seed).choice(ties))
