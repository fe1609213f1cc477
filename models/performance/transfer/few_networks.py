"""From one GPU to another where few networks were measured, and no operations.

log(target / anchor) of a step varies with what the networks do: with phase and precision, and a
little with how heavy a step is. A Gaussian process over these says how much, and how unsure it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.gaussian_process import GaussianProcess, fit_gaussian_process

_FEWEST_ROWS = 4


@dataclass(frozen=True, slots=True)
class RatioOfGpus:
    """A fitted log ratio of step times; `predict` takes the features it was fitted on."""

    process: GaussianProcess

    def predict(self, features: Floats, anchor_seconds: Floats) -> tuple[Floats, Floats]:
        """Log seconds on the target and their standard deviation, (n,) each."""
        value, deviation = self.process.predict(features)
        return np.log(anchor_seconds) + value, deviation


def fit_ratio_of_gpus(
    features: Floats, anchor_seconds: Floats, target_seconds: Floats
) -> RatioOfGpus:
    """Fit on (n, d) features of workloads measured on both; ValueError with fewer than four."""
    if len(features) < _FEWEST_ROWS:
        raise ValueError("too few workloads were measured on both GPUs to learn a ratio")
    ratios = np.log(target_seconds / anchor_seconds)
    return RatioOfGpus(fit_gaussian_process(features, ratios))
