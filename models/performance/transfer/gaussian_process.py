"""A Gaussian process regression with one length scale a feature (NumPy, SciPy for the fit).

Matern 5/2 covariance; amplitude, noise and length scales maximise the marginal likelihood times
log-normal priors, which keep few rows from switching features on and off (Rasmussen and Williams,
Gaussian Processes for Machine Learning, chapter 5). scikit-learn's takes an (n, n, features)
tensor for each gradient; here it is two matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats

# Log-normal priors: length scale of a standardised feature (times the root of their number, so
# that the prior distance of two rows does not grow with the features), and noise of a log ratio.
_LENGTH_SCALE, _LENGTH_SIGMA = 1.5, 1.0
_NOISE, _NOISE_SIGMA, _AMPLITUDE_SIGMA = 0.05, 1.0, 1.0
_JITTER = 1e-6
_STEPS = 15


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Log length scales (d,), log amplitude and log noise variance, in one vector."""

    parameters: Floats

    @property
    def amplitude(self) -> float:
        return float(np.exp(self.parameters[-2]))

    @property
    def noise(self) -> float:
        return float(np.exp(self.parameters[-1])) + _JITTER

    def scaled(self, features: Floats) -> Floats:
        scaled: Floats = features * np.exp(-self.parameters[:-2])
        return scaled

    def covariance(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Covariance of scaled rows, and the factor of its gradient in squared distances."""
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None] - 2 * left @ right.T
        distance = np.sqrt(5 * np.maximum(squares, 0.0))
        decay = self.amplitude * np.exp(-distance)
        return decay * (1 + distance + distance**2 / 3), decay * (1 + distance) * (5 / 3)


@dataclass(frozen=True, slots=True)
class GaussianProcess:
    """A fitted process; `predict` gives mean and standard deviation of the noiseless value."""

    mean: Floats
    scale: Floats
    centre: float
    spread: float
    kernel: _Kernel
    rows: Floats
    inverse: Floats
    weights: Floats

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation, (m,) each, for features (m, d)."""
        points = self.kernel.scaled((features - self.mean) / self.scale)
        covariance, _ = self.kernel.covariance(points, self.rows)
        value = self.centre + self.spread * (covariance @ self.weights)
        explained = ((covariance @ self.inverse) * covariance).sum(axis=1)
        variance = np.maximum(self.kernel.amplitude - explained, 1e-9)
        return value, self.spread * np.sqrt(variance)


def fit_gaussian_process(
    features: Floats, values: Floats, start: GaussianProcess | None = None
) -> GaussianProcess:
    """Fit values (n,) on features (n, d); `start` lends its kernel, which then is not fitted."""
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    standard = (features - mean) / scale
    centre, spread = float(values.mean()), float(values.std()) + 1e-9
    targets = (values - centre) / spread
    kernel = start.kernel if start else _fitted_kernel(standard, targets, spread)
    rows = kernel.scaled(standard)
    covariance, _ = kernel.covariance(rows, rows)
    inverse = _symmetric_inverse(covariance + kernel.noise * np.eye(len(rows)))
    return GaussianProcess(mean, scale, centre, spread, kernel, rows, inverse, inverse @ targets)


def _fitted_kernel(features: Floats, targets: Floats, spread: float) -> _Kernel:
    from scipy.optimize import minimize

    count = features.shape[1]
    prior = np.zeros(count + 2)
    prior[:count] = np.log(_LENGTH_SCALE * np.sqrt(count))
    prior[-1] = 2 * np.log(_NOISE / spread)
    sigmas = np.full(count + 2, _LENGTH_SIGMA)
    sigmas[-2:] = _AMPLITUDE_SIGMA, 2 * _NOISE_SIGMA

    def loss(parameters: Floats) -> tuple[float, Floats]:
        value, slope = _negative_log_likelihood(_Kernel(parameters), features, targets)
        away = (parameters - prior) / sigmas
        return value + 0.5 * float(away @ away), slope + away / sigmas

    bounds = [(low - 4, low + 4) for low in prior]
    found = minimize(
        loss, prior, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
    )
    return _Kernel(np.asarray(found.x))


def _negative_log_likelihood(
    kernel: _Kernel, features: Floats, targets: Floats
) -> tuple[float, Floats]:
    """Negative log marginal likelihood and its gradient in the kernel's parameters."""
    rows = kernel.scaled(features)
    covariance, gradient_factor = kernel.covariance(rows, rows)
    noisy = covariance + kernel.noise * np.eye(len(rows))
    factor = np.linalg.cholesky(noisy)
    inverse = _symmetric_inverse(noisy)
    weights = inverse @ targets
    value = 0.5 * float(targets @ weights) + float(np.log(np.diag(factor)).sum())
    sensitivity = 0.5 * (inverse - np.outer(weights, weights))
    pull = sensitivity * gradient_factor
    by_scale = 2 * ((rows**2) * pull.sum(axis=1)[:, None]).sum(axis=0)
    by_scale -= 2 * (rows * (pull @ rows)).sum(axis=0)
    by_amplitude = float((sensitivity * covariance).sum())
    by_noise = float(np.trace(sensitivity)) * (kernel.noise - _JITTER)
    return value, np.concatenate([by_scale, [by_amplitude, by_noise]])


def _symmetric_inverse(matrix: Floats) -> Floats:
    inverse: Floats = np.linalg.inv(matrix).astype(np.float64)
    return inverse
