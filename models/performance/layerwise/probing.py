"""What one measured step of a network on one GPU tells of its steps on another.

A network is slower or faster than the form says by one factor of its GPU time and one of its
launches. The probe cannot tell the two apart, but knows which of them it waited for: the factors
are those of the highest posterior density, and the target waits for its own mixture of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.performance.layerwise.form import StepParts
from models.performance.networks import Floats

# Log deviations between networks, as the residuals of measured networks show them; a probe is
# known to a few per cent, and another GPU shares most but not all of a network's factor.
_OF_GPU_TIME = 0.15
_OF_LAUNCHES = 0.10
_OF_PROBE = 0.03
_ROUNDS = 12
_FEWEST_PAIRS = 8
_USUAL_RESIDUAL = 0.05
_FIRM = 0.1


class Carrying(NamedTuple):
    """Log ratio of the target = `offset` + `share` x what the probe's factors say."""

    offset: float = 0.0
    share: float = 1.0


def told_by_probe(probe: StepParts, probe_seconds: Floats, target: StepParts) -> Floats:
    """Log of (target's seconds with the network's own factors / without), shape (n,).

    `probe` and `target` are predicted parts of the same n networks in two settings.
    """
    factors = _factors(probe, np.log(np.asarray(probe_seconds, dtype=float)))
    return np.asarray(np.log(_seconds(target, factors)) - np.log(target.seconds))


def fit_carrying(told: Floats, residual: Floats) -> Carrying:
    """How much of what probes tell holds, from networks measured in both settings.

    `told` and `residual` (log measured / predicted on the target) have shape (n,). Least absolute
    residuals by reweighting, with a weak pull towards carrying everything over; fewer than eight
    networks teach nothing.
    """
    if len(told) < _FEWEST_PAIRS:
        return Carrying()
    design = np.column_stack([np.ones_like(told), told])
    start = np.array([0.0, 1.0])
    found = start
    pull = np.diag([1.0, 1.0]) * _FIRM
    for _ in range(_ROUNDS):
        weight = 1 / np.sqrt(1 + ((residual - design @ found) / _USUAL_RESIDUAL) ** 2)
        left = design.T @ (design * weight[:, None]) + pull
        found = np.linalg.solve(left, design.T @ (weight * residual) + pull @ start)
    return Carrying(float(found[0]), float(found[1]))


def _factors(probe: StepParts, target: Floats) -> Floats:
    """Log factors of GPU time and of launches, shape (2, n), by damped Gauss-Newton steps."""
    deviation = np.array([_OF_GPU_TIME, _OF_LAUNCHES])[:, None]
    factors = np.zeros((2, len(target)))
    for _ in range(_ROUNDS):
        seconds = _seconds(probe, factors)
        slopes = _slopes(probe, factors, seconds)
        # One observation: the linear Gaussian update in closed form, from the prior each time.
        missing = target - np.log(seconds) + np.sum(slopes * factors, axis=0)
        spread = np.sum((slopes * deviation) ** 2, axis=0) + _OF_PROBE**2
        factors = 0.5 * factors + 0.5 * slopes * deviation**2 * missing / spread
    return factors


def _seconds(parts: StepParts, factors: Floats) -> Floats:
    gpu, launch = parts.gpu * np.exp(factors[0]), parts.launch * np.exp(factors[1])
    constant = parts.seconds - parts.device
    return np.asarray(np.sqrt(np.sqrt(gpu**4 + launch**4)) + constant)


def _slopes(parts: StepParts, factors: Floats, seconds: Floats) -> Floats:
    queues = np.stack([parts.gpu, parts.launch]) * np.exp(factors)
    device = np.sqrt(np.sqrt(np.sum(queues**4, axis=0)))
    return np.asarray(queues**4 / device**3 / seconds)
