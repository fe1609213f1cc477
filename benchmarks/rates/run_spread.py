"""By how much runs of a trial differ beside the error within them, from repeats of several trials.

The model is that of `advisor.sweeps.quality.rates`: the variance of a trial's runs is a scaled
inverse
chi-square around sigma² + the error within. The variance that n runs show is then
sigma² + within times F of n - 1 and `degrees` degrees of freedom (Smyth 2004, SAGMB 3:3), so a
trial whose runs are closer than their error within counts for what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from scipy.stats import f as f_distribution

_SIGMAS = np.geomspace(0.0005, 0.3, 400)
# Below three, an interval of one run is wider than any that one would bill by; 64 is as good as
# knowing sigma.
_DEGREES = (3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)


class Repeated(Struct, frozen=True):
    """What `runs` runs of a trial show: the variance of their log rates, and the mean squared
    relative error within a run."""

    variance: float
    runs: int
    within: float


def spread_of(trials: Sequence[Repeated]) -> dict[str, Any]:
    """The likeliest `sigma` and `degrees` on a grid, and between what 95 % of the likelihood lies
    (each over all values of the other one; alike in log sigma and log degrees)."""
    logs = np.array([_log_likelihoods(trials, degrees) for degrees in _DEGREES])
    row, column = np.unravel_index(logs.argmax(), logs.shape)
    # The degrees on the grid are about evenly spaced in their logarithm: each stands for its part.
    widths = np.gradient(np.log(_DEGREES))
    weights = np.exp(logs - logs.max()) * widths[:, None]
    sigmas = _middle(weights.sum(axis=0), _SIGMAS)
    degrees = _middle(weights.sum(axis=1), np.array(_DEGREES))
    return {
        "sigma": round(float(_SIGMAS[column]), 4),
        "sigma_95": [round(value, 4) for value in sigmas],
        "degrees": _DEGREES[row],
        "degrees_95": [int(value) for value in degrees],
        "degrees_on_grid": [_DEGREES[0], _DEGREES[-1]],
        "trials": len(trials),
        "runs": sum(trial.runs for trial in trials),
    }


def _log_likelihoods(trials: Sequence[Repeated], degrees: int) -> np.ndarray:
    """Of each sigma on the grid."""
    variances = np.array([[max(trial.variance, 1e-12)] for trial in trials])
    freedom = np.array([[trial.runs - 1] for trial in trials])
    scales = np.square(_SIGMAS) + np.array([[trial.within] for trial in trials])
    density = f_distribution.logpdf(variances / scales, freedom, degrees) - np.log(scales)
    result: np.ndarray = density.sum(axis=0)
    return result


def _middle(weights: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The values that 95 % of the weight lies between."""
    shares = np.cumsum(weights) / weights.sum()
    lower, upper = np.searchsorted(shares, [0.025, 0.975])
    return float(values[lower]), float(values[min(int(upper), len(values) - 1)])
