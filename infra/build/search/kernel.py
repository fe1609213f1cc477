"""How alike two configurations are, and how much that says of their costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.models.performance.surface import matern52, scaled_distance

Floats = NDArray[np.float64]

# Log-normal beliefs about the kernel before any table is seen: (centre, standard deviation) of
# the logarithm. Costs are in logs, columns in 0..1.
_VARIANCE = (np.log(0.1), 2.0)
_LENGTH = (0.0, 1.0)
_NOISE = (np.log(0.003), 1.0)
_ITERATIONS = 40
# Standard deviations from those beliefs that no table may lead further away.
_FARTHEST = 4.0
# Variance of a function's own level, in variances of its shape.
_LEVEL = 0.5
# Where fewer were run, differences of one workload say nothing about lengths.
_FEWEST = 3


class Kernel(Struct, frozen=True):
    """A Matern kernel: variance of log cost, a length for each column, variance of repeats."""

    variance: float
    lengths: Floats
    noise: float

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances (n, m) of configurations `one` (n, d) and `other` (m, d)."""
        return self.variance * matern52(left, right, self.lengths)


def fit_kernel(features: Floats, residuals: Sequence[Floats]) -> Kernel:
    """The likeliest kernel of several functions over the same configurations.

    `features` is (n, d); each of `residuals` (n,), log costs less their mean, nan where unknown.
    """
    from scipy.optimize import minimize

    width = features.shape[1]
    centres = np.array([_VARIANCE[0], *[_LENGTH[0]] * width, _NOISE[0]])
    spreads = np.array([_VARIANCE[1], *[_LENGTH[1]] * width, _NOISE[1]])
    existing = np.isfinite(residuals).reshape(len(residuals), len(features)).sum(axis=1)
    rows = [row for row, count in zip(residuals, existing, strict=True) if count >= _FEWEST]
    if not rows:
        return _kernel(centres)
    seen = np.isfinite(rows).any(axis=0)
    squares = (features[seen][:, None, :] - features[seen][None, :, :]) ** 2
    cut = [row[seen] for row in rows]

    def unlikely(units: Floats) -> tuple[float, Floats]:
        value, slope = _unlikelihood(_kernel(centres + spreads * units), squares, cut)
        return value + float(0.5 * units @ units), slope * spreads + units

    limits = [(-_FARTHEST, _FARTHEST)] * len(centres)
    result = minimize(
        unlikely,
        np.zeros(len(centres)),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": _ITERATIONS},
    )
    return _kernel(centres + spreads * result.x)


def _kernel(logs: Floats) -> Kernel:
    return Kernel(float(np.exp(logs[0])), np.exp(logs[1:-1]), float(np.exp(logs[-1])))


def _unlikelihood(kernel: Kernel, squares: Floats, rows: Sequence[Floats]) -> tuple[float, Floats]:
    """Negative log likelihood of the rows, and its slope over the kernel's logarithms (d + 2,).

    `squares` (n, n, d) are squared differences. The slope is Rasmussen and Williams, equation
    5.9, summed over rows; each row has a level of its own, which says nothing about the shape.
    """
    scaled = squares / kernel.lengths**2
    far = scaled_distance(scaled)
    decay = np.exp(-far)
    covariance = kernel.variance * ((1 + far + far**2 / 3) * decay + _LEVEL)
    total, slopes = 0.0, np.zeros_like(covariance)
    for row in rows:
        at = np.flatnonzero(np.isfinite(row))
        here = np.ix_(at, at)
        lower = np.linalg.cholesky(covariance[here] + kernel.noise * np.eye(len(at)))
        inverse_lower = np.linalg.inv(lower)
        white = inverse_lower @ row[at]
        weights = inverse_lower.T @ white
        slopes[here] += 0.5 * (inverse_lower.T @ inverse_lower - np.outer(weights, weights))
        total += float(0.5 * white @ white + np.log(np.diag(lower)).sum())
    nearness = kernel.variance * 5 / 3 * (1 + far) * decay
    lengths = np.einsum("ij,ijd->d", slopes * nearness, scaled)
    variance, noise = np.sum(slopes * covariance), kernel.noise * np.trace(slopes)
    return total, np.array([variance, *lengths, noise])
