"""Predicts a new workload's costs from other workloads' tables, before and after its first trials.

A new workload behaves either like a known one (whose whole curve over the configurations is one component) or
like the average of all; each component's weight follows from how well it predicted the trials so far. The
average alone would lose what only one workload shows, such as costs that fall to a third once all data fits
into memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.models.performance.surface import matern52, scaled_distance

Floats = NDArray[np.float64]

# Log-normal priors on the kernel before any table is seen: (centre, standard deviation) of the logarithm.
# Costs are in logs, columns in 0..1.
_VARIANCE = (np.log(0.1), 2.0)
_LENGTH = (0.0, 1.0)
_NOISE = (np.log(0.003), 1.0)
_ITERATIONS = 40
# Limit, in standard deviations of these priors, on how far tables can move the kernel.
_FARTHEST = 4.0
# Variance of a function's level, relative to the variance of its shape.
_LEVEL_SHARE = 0.5
# With fewer runs, differences within one workload say nothing about lengths.
_FEWEST = 3


class Kernel(Struct, frozen=True):
    """A Matern kernel: variance of log cost, a length scale for each column, variance of repeats."""

    variance: float
    lengths: Floats
    noise: float

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances (n, m) of configurations `left` (n, d) and `right` (m, d)."""
        return self.variance * matern52(left, right, self.lengths)


def fit_kernel(features: Floats, residuals: Sequence[Floats]) -> Kernel:
    """The maximum-likelihood kernel of several functions over the same configurations.

    `features` is (n, d); each of `residuals` (n,) is log costs minus their mean, nan where unknown."""
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
    """Negative log likelihood of the rows, and its gradient in the kernel's logarithms (d + 2,).

    `squares` (n, n, d) are squared differences. The gradient is Rasmussen and Williams, equation 5.9, summed
    over rows; each row has a separate level, which says nothing about the shape."""
    scaled = squares / kernel.lengths**2
    far = scaled_distance(scaled)
    decay = np.exp(-far)
    covariance = kernel.variance * ((1 + far + far**2 / 3) * decay + _LEVEL_SHARE)
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


# Variance of a workload's level of log cost: wide, since workloads differ by factors of hundreds.
_LEVEL = 4.0
# Prior probability that the new workload is unlike all known ones.
_UNLIKE_ALL = 0.1
_ROUNDS = 20
_SMALLEST_VARIANCE = 1e-9


class History(Struct, frozen=True):
    """Measured tables of other workloads over the same configurations, both of shape (w, n).

    `log_cost` is nan where a run failed or was not made; `worked` is 1, 0 or nan (not run)."""

    log_cost: Floats
    worked: Floats

    @classmethod
    def none(cls, configurations: int) -> History:
        """An empty history: no other workload is known."""
        empty = np.empty((0, configurations))
        return cls(empty, empty.copy())


class Component(Struct, frozen=True):
    """One belief: log costs (n,) up to their level, and their covariance (n, n)."""

    mean: Floats
    covariance: Floats
    weight: float


class Prior(Struct, frozen=True):
    """Beliefs about log costs; `noise` is the variance of a repeat."""

    components: tuple[Component, ...]
    noise: float


class Posterior(Struct, frozen=True):
    """Beliefs after trials: `weights` (c,), means and standard deviations of log costs (c, n)."""

    weights: Floats
    means: Floats
    deviations: Floats


def learn_prior(features: Floats, history: History) -> Prior:
    """The prior of a workload that `history` does not contain; `features` is (n, d) in 0..1."""
    rows = history.log_cost[np.isfinite(history.log_cost).sum(axis=1) > 1]
    if not len(rows):
        kernel = fit_kernel(features, [])
        return Prior((_like_none(features, kernel),), kernel.noise)
    mean, centred = _split(rows)
    kernel = fit_kernel(features, list(centred - mean))
    covariance = kernel.between(features, features)
    each = (1 - _UNLIKE_ALL) / len(rows)
    components = [_like(row, mean, covariance, kernel.noise, each) for row in centred]
    # The average is uncertain, since it comes from a limited number of workloads.
    components.append(Component(mean, covariance * (1 + 2 / len(rows)), _UNLIKE_ALL))
    return Prior(tuple(components), kernel.noise)


def prior_of_trials(features: Floats, at: Sequence[int], log_costs: Floats) -> Prior:
    """A prior without other workloads: the trials show how costs vary."""
    values = np.full(len(features), np.nan)
    values[list(at)] = log_costs - log_costs.mean()
    kernel = fit_kernel(features, [values])
    return Prior((_like_none(features, kernel),), kernel.noise)


def posterior_of(prior: Prior, at: Sequence[int], log_costs: Floats) -> Posterior:
    """Beliefs after trials of the configurations `at` with costs `log_costs` (k,)."""
    logs, means, deviations = [], [], []
    places = list(at)
    for component in prior.components:
        covariance = component.covariance + _LEVEL
        seen = covariance[np.ix_(places, places)] + prior.noise * np.eye(len(places))
        lower = np.linalg.cholesky(seen)
        white = np.linalg.solve(lower, log_costs - component.mean[places])
        gain = np.linalg.solve(lower, covariance[places])
        variance = np.diag(covariance) - np.sum(gain**2, axis=0)
        means.append(component.mean + gain.T @ white)
        deviations.append(np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE)))
        likelihood = -0.5 * white @ white - np.log(np.diag(lower)).sum()
        logs.append(np.log(component.weight) + likelihood)
    weights = np.exp(np.array(logs) - max(logs))
    return Posterior(weights / weights.sum(), np.array(means), np.array(deviations))


def _split(rows: Floats) -> tuple[Floats, Floats]:
    """The average curve (n,), and the rows minus their level (w, n).

    Rows lack different configurations, so levels and average are estimated alternately."""
    existing = np.isfinite(rows)
    mean = np.zeros(rows.shape[1])
    centred = rows
    for _ in range(_ROUNDS):
        centred = rows - np.nanmean(rows - mean, axis=1, keepdims=True)
        total = np.where(existing, centred, 0.0).sum(axis=0)
        mean = total / np.maximum(existing.sum(axis=0), 1)
    return mean, centred


def _like(row: Floats, mean: Floats, covariance: Floats, noise: float, weight: float) -> Component:
    """The component of a known workload; configurations that it did not run are inferred from the others."""
    at = np.isfinite(row)
    seen = covariance[np.ix_(at, at)] + noise * np.eye(int(at.sum()))
    gain = np.linalg.solve(seen, covariance[at])
    answer = mean + gain.T @ (row[at] - mean[at])
    doubt = np.diag(covariance) - np.sum(gain * covariance[at], axis=0)
    own = np.diag(np.where(at, 0.0, np.maximum(doubt, 0.0)))
    return Component(np.where(at, row, answer), covariance + own, weight)


def _like_none(features: Floats, kernel: Kernel) -> Component:
    return Component(np.zeros(len(features)), kernel.between(features, features), 1.0)
