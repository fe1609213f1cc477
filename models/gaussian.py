"""One Gaussian over named parameters, and what measured rows make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CLOSE = 1e-3
# Means (n,) at parameters (p,), and slopes (n, p).
Linearised = Callable[[Floats], tuple[Floats, Floats]]


def conditioned(
    mean: Floats,
    covariance: Floats,
    linearised: Linearised,
    measured: Floats,
    sigma: Floats,
    start: Floats | None = None,
    most_updates: int = 3,
) -> tuple[Floats, Floats]:
    """Mean (p,) and covariance (p, p) once n values are measured with standard errors (n,).

    A Gauss-Newton update from `start` (p,), else from the mean, repeated since what is predicted
    bends with its parameters.
    """
    theta, white = mean if start is None else start, np.zeros((0, len(mean)))
    for _ in range(most_updates):
        predicted, slopes = linearised(theta)
        root, white = _whitened(covariance, slopes, sigma)
        left = measured - predicted - slopes @ (mean - theta)
        after = mean + white.T @ np.linalg.solve(root, left)
        moved = float(np.abs(after - theta).max(initial=0.0))
        theta = after
        if moved < _CLOSE:
            break
    return theta, covariance - white.T @ white


def variances(rows: Floats, covariance: Floats) -> Floats:
    """Of each row's weighted sum (n,), for weights (n, p)."""
    result: Floats = ((rows @ covariance) * rows).sum(axis=1)
    return result


def _whitened(covariance: Floats, slopes: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """The root of what the rows are expected to scatter by, (n, n), and what each whitened row
    tells of the parameters, (n, p): a rank-n update."""
    used = np.flatnonzero(slopes.any(axis=0))
    reach = slopes[:, used] @ covariance[used]
    expected = reach[:, used] @ slopes[:, used].T + np.diag(np.square(sigma))
    root: Any = np.linalg.cholesky(expected)
    return np.asarray(root, dtype=float), np.asarray(np.linalg.solve(root, reach), dtype=float)
