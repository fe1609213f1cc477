"""How stages that run at the same time hold each other back: the smooth minimum."""

from __future__ import annotations

import numpy as np

from models.performance.networks import Floats

GAMMA_RANGE = (1.0, 20.0)


def smooth_minimum(rates: Floats, gamma: float) -> tuple[Floats, Floats]:
    """`(sum_k R_k^-gamma)^(-1/gamma)` over the columns of `rates` (n, stages), and weights.

    A stage that a request does not have is infinite. The weights (n, stages) are the shares
    d log R / d log R_k; they sum to 1, and the largest is the bottleneck's.
    """
    joined, weights = smooth_log_minimum(logs_by_stage(rates), gamma)
    return np.exp(joined), weights.T


def logs_by_stage(rates: Floats) -> Floats:
    """Logarithms (stages, n) of `rates` (n, stages): reductions over the stages of a request take
    nine times as long where these stand side by side."""
    return np.asarray(np.log(np.ascontiguousarray(rates.T)))


def smooth_log_minimum(logs: Floats, gamma: float) -> tuple[Floats, Floats]:
    """The same of logarithms (stages, ...), as a logarithm; weights (stages, ...)."""
    # In logarithms: NumPy's power takes several times as long as exp and log together.
    lowest = logs.min(axis=0)
    powers = np.exp(gamma * (lowest - logs))
    total = powers.sum(axis=0)
    powers /= total
    return lowest - np.log(total) / gamma, powers
