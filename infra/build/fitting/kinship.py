"""The process over the mix of operations in a step, from measured steps."""

from __future__ import annotations

import numpy as np

from advisor.models.bayes import Floats
from advisor.models.network_columns import KINDS
from advisor.models.performance.posterior import Kinship, standardised

# Shapes, time, launches and the task distinguish networks better than the mix of kinds (`step_features`).
WEIGHTS = np.array([*[1.0] * (2 * len(KINDS)), 2.0, 2.0, 2.0, 3.0, 2.0, 1.0, 3.0])


def kinship_of(features: Floats, residuals: Floats, noise: Floats, weights: Floats | float = 1.0) -> Kinship:
    """The process over measured steps: features (n, d), residuals and noise variances (n,). `weights` (d,)
    scale the features."""
    centre, spread = features.mean(axis=0), (features.std(axis=0) + 1e-6) / weights
    return Kinship(
        centre, spread, standardised(features, centre, spread), residuals, noise, float(np.median(residuals))
    )
