"""Parameters of one GPU, precision and task from measured steps: robust, with priors."""

from __future__ import annotations

import numpy as np

from models.performance.layerwise.form import Prior, Steps, seconds_and_slopes, step_seconds
from models.performance.networks import Floats

# Log residuals beyond this count by their size, no longer by its square: some rows are wrong.
_USUAL_RESIDUAL = 0.1
_MOST_ROUNDS = 60
_TRIES_A_ROUND = 8
_LONGEST_MOVE = 1.0


def fit_parameters(steps: Steps, seconds: Floats, prior: Prior) -> Floats:
    """Log-parameters with the highest posterior density, shape (len(NAMES),).

    Residuals are log(predicted / measured) with a soft-L1 loss (sqrt(1 + z^2) - 1, z in units of
    0.1); the prior is Gaussian. Damped Gauss-Newton steps with the exact slopes.
    """
    target = np.log(np.asarray(seconds, dtype=float))
    parameters, damping = prior.mean.copy(), 1e-3
    loss = _loss(steps, target, prior, parameters)
    for _ in range(_MOST_ROUNDS):
        curvature, slope = _normal_equations(steps, target, prior, parameters)
        for _ in range(_TRIES_A_ROUND):
            move = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), slope)
            moved = parameters - np.clip(move, -_LONGEST_MOVE, _LONGEST_MOVE)
            new = _loss(steps, target, prior, moved)
            if new < loss:
                break
            damping *= 5
        else:
            return parameters
        gain, parameters, loss = loss - new, moved, new
        damping = max(damping / 5, 1e-6)
        if gain < 1e-4 * max(1.0, abs(loss)):
            break
    return parameters


def _loss(steps: Steps, target: Floats, prior: Prior, parameters: Floats) -> float:
    residual = (np.log(step_seconds(steps, parameters)) - target) / _USUAL_RESIDUAL
    distance = (parameters - prior.mean) / prior.deviation
    return float(np.sum(np.sqrt(1 + residual**2) - 1) + 0.5 * np.sum(distance**2))


def _normal_equations(
    steps: Steps, target: Floats, prior: Prior, parameters: Floats
) -> tuple[Floats, Floats]:
    seconds, slopes = seconds_and_slopes(steps, parameters)
    residual = (np.log(seconds) - target) / _USUAL_RESIDUAL
    slopes = slopes / _USUAL_RESIDUAL
    weight = 1 / np.sqrt(1 + residual**2)
    precision = 1 / prior.deviation**2
    curvature = slopes.T @ (slopes * weight[:, None]) + np.diag(precision)
    slope = slopes.T @ (weight * residual) + (parameters - prior.mean) * precision
    return curvature, slope
