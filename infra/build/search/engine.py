"""Chooses the configuration to try next, so that the cheapest one is found in few trials.

Maximises the expected improvement (Jones, Schonlau and Welch 1998) of log cost under a mixture of beliefs,
times the probability that the configuration works. Pure: equal problems and trials give equal answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from advisor.infra.build.search.prior import (
    History,
    Posterior,
    Prior,
    learn_prior,
    posterior_of,
    prior_of_trials,
)
from advisor.models.bayes import Floats
from advisor.models.performance.surface import matern52

# Upper limit on the regret of a first guess (in logarithms: twenty times the price).
_WORST_REGRET = 3.0
# Fewest trials from which the kernel of a workload without history is fitted.
_FEWEST_TO_LEARN = 4
# Scores closer than this are ties, which the seed breaks.
_TIE = 1e-12


class Problem(Struct, frozen=True):
    """Configurations `features` (n, d) in 0..1, which of them may be tried (n,), other workloads' costs
    there, and the prior that follows."""

    features: Floats
    available: np.typing.NDArray[np.bool_]
    history: History
    prior: Prior


class Proposal(Struct, frozen=True):
    """The next trial, and the expected saving as a share of the price (None: not known yet)."""

    index: int
    expected_saving: float | None
    chance_of_working: float


def problem_of(features: Floats, available: np.typing.NDArray[np.bool_], history: History) -> Problem:
    """A search problem with its prior; `ValueError` if the shapes do not agree."""
    rows = len(features)
    if len(available) != rows or history.log_cost.shape[1] != rows:
        raise ValueError("features, available and history describe different configurations")
    return Problem(features, available, history, learn_prior(features, history))


def propose(problem: Problem, trials: Mapping[int, float | None], *, seed: int = 0) -> Proposal | None:
    """The next trial after `trials`, which maps configurations to log costs (None: it failed).

    Returns None when every configuration was tried."""
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
    """E[max(0, best - log cost)] (n,): for small savings, this is a share of the price."""
    from scipy.special import ndtr

    z = (best - beliefs.means) / beliefs.deviations
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    saving: Floats = beliefs.weights @ (beliefs.deviations * (z * ndtr(z) + density))
    return saving


def _first_guess(problem: Problem, chances: Floats, failures: int) -> Floats:
    """Scores until a trial works: low expected regret, and after failures mainly the chance of working."""
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


# Probability that a configuration works if it worked, or failed, for a similar workload.
_LIKE_WORKED, _LIKE_FAILED = 0.97, 0.3
_SHARE_OF_LIKE = 0.9
_LEAST, _MOST = 0.02, 0.98
# Of the latent logit: a failure also makes similar configurations less likely to work.
_VARIANCE, _LENGTH = 9.0, 1.0


def chance_of_working(
    features: Floats, worked_elsewhere: Floats, worked: Sequence[int], failed: Sequence[int]
) -> Floats:
    """Probabilities (n,), from other workloads' outcomes (w, n) and this workload's trials.

    First, other workloads are weighted by how well their outcomes predict these trials. Then a logit with a
    Gaussian process over the configurations `features` (n, d) is fitted."""
    chances = _by_likeness(worked_elsewhere, worked, failed)
    if not failed:
        return chances
    at = [*worked, *failed]
    outcome = np.repeat([1.0, 0.0], [len(worked), len(failed)])
    logits = np.log(chances / (1 - chances))
    covariance = _VARIANCE * matern52(features, features[at], _LENGTH)
    shift = _shift(covariance[at], logits[at], outcome)
    return _sigmoid(logits + covariance @ shift)


def _by_likeness(elsewhere: Floats, worked: Sequence[int], failed: Sequence[int]) -> Floats:
    ran = np.isfinite(elsewhere)
    share = (np.where(ran, elsewhere, 0.0).sum(axis=0) + 1) / (ran.sum(axis=0) + 1.1)
    if not len(elsewhere):
        return _clipped(share)
    like = np.where(ran, np.where(elsewhere > 0, _LIKE_WORKED, _LIKE_FAILED), share)
    logs = np.log(like[:, list(worked)]).sum(axis=1)
    logs += np.log(1 - like[:, list(failed)]).sum(axis=1)
    weights = np.exp(logs - logs.max())
    mixed = weights @ like / weights.sum()
    mixed = _SHARE_OF_LIKE * mixed + (1 - _SHARE_OF_LIKE) * share
    return _clipped(mixed)


def _shift(covariance: Floats, logits: Floats, outcome: Floats) -> Floats:
    """Weights (k,) of the trials at the posterior's mode; the problem is convex, so it is always found."""
    from scipy.optimize import minimize

    def unlikely(shift: Floats) -> tuple[float, Floats]:
        latent = covariance @ shift
        at = logits + latent
        value = 0.5 * shift @ latent + np.sum(np.logaddexp(0.0, at) - outcome * at)
        return float(value), latent + covariance @ (_sigmoid(at) - outcome)

    result = minimize(unlikely, np.zeros(len(logits)), jac=True, method="L-BFGS-B")
    shift: Floats = result.x
    return shift


def _sigmoid(values: Floats) -> Floats:
    chances: Floats = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return chances


def _clipped(chances: Floats) -> Floats:
    clipped: Floats = np.clip(chances, _LEAST, _MOST)
    return clipped
