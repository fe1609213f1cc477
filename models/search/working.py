"""How likely each configuration works at all (enough memory, within the time limit)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.search.kernel import Floats, matern52

# Beliefs of a workload that failed, or worked, where another did so too.
_LIKE_WORKED, _LIKE_FAILED = 0.97, 0.3
_SHARE_OF_LIKE = 0.9
_LEAST, _MOST = 0.02, 0.98
# Of the latent logit: failures spread to configurations alike.
_VARIANCE, _LENGTH = 9.0, 1.0


def chance_of_working(
    features: Floats, worked_elsewhere: Floats, worked: Sequence[int], failed: Sequence[int]
) -> Floats:
    """Probabilities (n,), from other workloads' outcomes (w, n) and this one's trials.

    First by likeness: other workloads count by how well their outcomes foretell these. Then by
    nearness: a logit with a Gaussian process over the configurations `features` (n, d).
    """
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
    """Weights (k,) of the trials at the posterior's mode: convex, so that it is always found."""
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
