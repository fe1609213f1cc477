"""Joins the rates of a pipeline's stages: `R = (sum_k R_k^-gamma)^(-1/gamma)`, a smooth minimum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from advisor.models.bayes import Floats

GAMMA_RANGE = (1.0, 20.0)
_LOG_2 = float(np.log(2.0))


def exponents(training: Floats, batches_ahead: Floats, parameters: Mapping[str, float]) -> Floats:
    """The exponent of each request's smooth minimum, (n,); `training` is 0 or 1.

    A real GPU waits for batches whose times scatter, and loaders wait for room to put them. A
    queue that holds K of them besides the one that is computed on passes (K + 1) / (K + 2) of
    what either side alone does where both are equally fast (M/M/1/K), which a smooth minimum does
    with the exponent log 2 / log((K + 2) / (K + 1)): 1 without any, 1.7 for one, 6.6 for eight.
    """
    queue = _LOG_2 / np.log1p(1 / (batches_ahead + 1))
    beside_gpu = queue * np.exp(parameters["join/queue"] + parameters["join/training"] * training)
    gamma = np.where(batches_ahead > 0, beside_gpu, np.exp(parameters["join/gamma"]))
    return np.asarray(np.clip(gamma, *GAMMA_RANGE))


def smooth_minimum(rates: Floats, gamma: float | Floats) -> tuple[Floats, Floats]:
    """`(sum_k R_k^-gamma)^(-1/gamma)` over the columns of `rates` (n, stages), and weights.

    `gamma` is one number or (n,). A stage that a request does not have is infinite. The weights (n, stages)
    are the shares d log R / d log R_k; they sum to 1, and the largest is the bottleneck's.
    """
    joined, weights = smooth_log_minimum(logs_by_stage(rates), gamma)
    return np.exp(joined), weights.T


def logs_by_stage(rates: Floats) -> Floats:
    """Logarithms (stages, n) of `rates` (n, stages): reductions over the stages of a request take
    nine times as long where these stand side by side."""
    return np.asarray(np.log(np.ascontiguousarray(rates.T)))


def smooth_log_minimum(logs: Floats, gamma: float | Floats) -> tuple[Floats, Floats]:
    """The smooth minimum of logarithms (stages, ...), as a logarithm; weights (stages, ...)."""
    # In logarithms: NumPy's power takes several times as long as exp and log together.
    lowest = logs.min(axis=0)
    powers = np.exp(gamma * (lowest - logs))
    total = powers.sum(axis=0)
    powers /= total
    return lowest - np.log(total) / gamma, powers
