"""A Gaussian process over the mix of operations in a step: networks with similar operations deviate alike.

The roofline's residual is much the same on every GPU, and similar for networks that spend their time on the
same kinds of operations. A step that was never measured gets its residual from the nearest measured steps,
with more variance the further away they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats
from advisor.models.network_columns import KINDS
from advisor.models.performance.step_time import Steps, class_seconds

# (variance, length in standard deviations of the features) of the process's two scales.
_SCALES = ((0.02, 6.0), (0.01, 2.5))
_NEAREST = 80
_FURTHEST = 4.0


class Kinship(Struct, frozen=True):
    """The measured steps: standardised features (n, d), residuals and their noise variances (n,)."""

    centre: Floats
    spread: Floats
    features: Floats
    residuals: Floats
    noise: Floats
    level: float

    def deviation(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean and variance (m,) of the deviation of log seconds from the roofline, at features (m, d)."""
        means, variances = np.zeros(len(features)), np.zeros(len(features))
        total = sum(share for share, _ in _SCALES)
        for row, point in enumerate(standardised(features, self.centre, self.spread)):
            away = np.sqrt(((self.features - point) ** 2).sum(axis=1))
            near = np.argsort(away)[:_NEAREST]
            between = self.features[near]
            # Row by row: all at once takes megabytes, and several times as long.
            apart = np.array([np.sqrt(((between - point) ** 2).sum(axis=1)) for point in between])
            shared = covariance(apart) + np.diag(self.noise[near])
            to = covariance(away[near])
            weights = np.linalg.solve(shared, to)
            means[row] = self.level + weights @ (self.residuals[near] - self.level)
            variances[row] = max(total - float(weights @ to), 0.0)
        return means, variances


def covariance(distances: Floats) -> Floats:
    """The sum of Matern 3/2 kernels at both scales of `_SCALES`."""
    result = np.zeros_like(distances)
    for share, scale in _SCALES:
        x = np.sqrt(3) * distances / scale
        result += share * (1 + x) * np.exp(-x)
    return result


def standardised(features: Floats, centre: Floats, spread: Floats) -> Floats:
    """Features centred and in units of `spread`, clipped to `_FURTHEST` on either side."""
    return np.asarray(np.clip((features - centre) / spread, -_FURTHEST, _FURTHEST), dtype=float)


def step_features(steps: Steps, kinds: np.ndarray, training: Sequence[bool], theta: Floats) -> Floats:
    """The features of each step: shares of its time by class of operation, shape (count, d).

    `kinds` (k,) indexes `KINDS` for each row of operations; `training` says whether each step trains."""
    compute, memory = class_seconds(steps, theta)
    together = np.sqrt(np.sqrt(compute**4 + memory**4))
    total = np.bincount(steps.step, together, steps.count)
    columns = []
    for kind in range(len(KINDS)):
        of_kind = kinds == kind
        for values in (together, compute):
            columns.append(np.bincount(steps.step[of_kind], values[of_kind], steps.count) / total)
    product = together * (steps.reduction > 1)
    weight = np.bincount(steps.step, product, steps.count) + 1e-12
    for size in (steps.reduction, steps.width, steps.outputs + 1):
        columns.append(np.bincount(steps.step, product * np.log(size), steps.count) / weight)
    columns.append(np.log(total))
    columns.append(np.log(steps.launches.sum(axis=1)))
    arithmetic = np.bincount(steps.step, compute, steps.count)
    columns.append(np.log((arithmetic + 1e-12) / np.bincount(steps.step, memory, steps.count)))
    return np.column_stack([*columns, 2.0 * np.array(training, float)])
