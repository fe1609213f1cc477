"""A step as a sum: each class of operations, and the gaps, take a fixed multiple of their time.

The multiples are fitted to whole steps on the target (non-negative least squares of relative
errors), not to profiled operations; so they also carry what profiles do not show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.features import Samples

# The prior of a multiple (the class's mean ratio of profiles) counts like this many rows in which
# the class is the whole step.
_PRIOR_ROWS = 3.0
_TINY = 1e-7


@dataclass(frozen=True, slots=True)
class AdditiveSteps:
    """Multiples of the classes' times, and of the gaps (last); NaN where a class was never seen."""

    multiples: Floats

    def log_seconds(self, samples: Samples) -> Floats:
        """Log seconds on the target, (n,); unseen classes as the operation ratios have them."""
        parts, expected = _parts(samples)
        known = np.isfinite(self.multiples)
        seconds = parts[:, known] @ self.multiples[known] + expected[:, ~known].sum(axis=1)
        return np.asarray(np.log(seconds + _TINY), dtype=float)


def fit_additive_steps(samples: Samples, target_seconds: Floats) -> AdditiveSteps:
    """Fit the multiples on workloads with profiles and operations expected on the target."""
    from scipy.optimize import nnls

    parts, expected = _parts(samples)
    total = parts.sum(axis=0)
    seen = total > _TINY * len(parts)
    prior = np.maximum(expected.sum(axis=0)[seen] / total[seen], _TINY)
    design = parts[:, seen] * prior / target_seconds[:, None]
    weight = np.sqrt(_PRIOR_ROWS)
    design = np.vstack([design, weight * np.eye(len(prior))])
    values = np.concatenate([np.ones(len(parts)), np.full(len(prior), weight)])
    multiples = np.full(len(total), np.nan)
    multiples[seen] = nnls(design, values)[0] * prior
    return AdditiveSteps(multiples)


def _parts(samples: Samples) -> tuple[Floats, Floats]:
    """Seconds on the anchor by class with the gaps last, and the same expected on the target."""
    profiles, there = samples.cells.profiles, samples.target_operations
    if profiles is None or there is None:
        raise ValueError("additive steps need profiles")
    idle = profiles.idle[:, None]
    # A step waits for about half of the gaps that profiling shows: profiling slows launches.
    return np.hstack([profiles.operations, idle]), np.hstack([there, 0.5 * idle])
