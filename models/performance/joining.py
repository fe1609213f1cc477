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
    # In logarithms: NumPy's power takes several times as long as exp and log together. A stage a
    # row: reductions over the four of a request take nine times as long.
    logs = np.log(np.ascontiguousarray(rates.T))
    lowest = logs.min(axis=0)
    powers = np.exp(gamma * (lowest - logs))
    total = powers.sum(axis=0)
    joined: Floats = np.exp(lowest - np.log(total) / gamma)
    return joined, (powers / total).T
