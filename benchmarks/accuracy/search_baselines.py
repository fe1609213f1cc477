"""What the search has to beat: standard Bayesian optimisation, and chance.

Both know one workload only. GP-EI is scikit-learn's Gaussian process (Matern 5/2, a length for
each column, fitted noise) with expected improvement after three random trials; it sees log costs,
and a failed trial as the dearest one so far, which is the usual way.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_RANDOM_TRIALS = 3


def random_trials(
    _features: Floats, available: NDArray[np.bool_], _outcome: Floats, trials: int, seed: int
) -> list[int]:
    """Configurations in random order."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(available))
    return [int(index) for index in order[:trials]]


def gp_ei_trials(
    features: Floats, available: NDArray[np.bool_], outcome: Floats, trials: int, seed: int
) -> list[int]:
    """Configurations in the order in which GP-EI tries them; `outcome` (n,) nan: it fails."""
    done = random_trials(features, available, outcome, _RANDOM_TRIALS, seed)
    while len(done) < min(trials, int(available.sum())):
        left = available.copy()
        left[done] = False
        saving = _expected_improvement(features, done, _known(outcome[done]), seed)
        done.append(int(np.argmax(np.where(left, saving, -np.inf))))
    return done


def _known(costs: Floats) -> Floats:
    worked = costs[np.isfinite(costs)]
    return np.nan_to_num(costs, nan=worked.max() if len(worked) else 0.0)


def _expected_improvement(features: Floats, done: list[int], costs: Floats, seed: int) -> Floats:
    from scipy.stats import norm
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel() * Matern(np.ones(features.shape[1]), nu=2.5) + WhiteKernel(1e-2)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # lengths at their bounds are usual
        process.fit(features[done], costs)
    mean, deviation = process.predict(features, return_std=True)
    z = (costs.min() - mean) / np.maximum(deviation, 1e-9)
    improvement: Floats = deviation * (z * norm.cdf(z) + norm.pdf(z))
    return improvement
