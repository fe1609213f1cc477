"""The ensemble over its members: their equal mean in log seconds, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.features import Samples
from models.performance.transfer.forms import Form, fit_forms

# Fewer workloads than this teach a ratio and nothing finer.
_FEWEST_ROWS, _FEWEST_NETWORKS = 12, 3
_NEIGHBOURS = 5
# Features are logs and square roots of shares; one that (hardly) varies among the taught workloads
# counts as if it varied by this much, or a new class of operations would be infinitely far away.
_LEAST_SCALE = 0.1


@dataclass(frozen=True, slots=True)
class Transferred:
    """Log seconds on the target (n,), and what an interval's width may follow.

    `spread` is the deviation between members, `deviation` what the processes say themselves,
    `distance` the mean distance to the nearest taught workloads in the features.
    """

    log_seconds: Floats
    spread: Floats
    deviation: Floats
    distance: Floats

    @property
    def doubt(self) -> Floats:
        """Geometric mean of the three; what conformal intervals scale with."""
        logs = [np.log(part + 1e-4) for part in (self.spread, self.deviation, self.distance)]
        doubt: Floats = np.exp(np.mean(logs, axis=0))
        return doubt


@dataclass(frozen=True, slots=True)
class Regression:
    """Fitted members, and the standardised features that taught them."""

    forms: Mapping[str, Form]
    taught: Floats
    centre: Floats
    scale: Floats

    def predict(self, samples: Samples) -> Transferred:
        """Log seconds on the target with their doubts, (n,) each."""
        answers = [form.predict(samples) for form in self.forms.values()]
        members = np.array([value for value, _ in answers])
        deviations = np.array([deviation for _, deviation in answers if deviation is not None])
        return Transferred(
            members.mean(axis=0),
            members.std(axis=0),
            deviations.mean(axis=0),
            self._distance(samples),
        )

    def _distance(self, samples: Samples) -> Floats:
        points = (samples.features() - self.centre) / self.scale
        squares = (points**2).sum(1)[:, None] + (self.taught**2).sum(1) - 2 * points @ self.taught.T
        nearest = np.sort(np.sqrt(np.maximum(squares, 0.0)), axis=1)[:, :_NEIGHBOURS]
        distance: Floats = nearest.mean(axis=1)
        return distance


def fit_regression(
    samples: Samples, target_seconds: Floats, like: Regression | None = None
) -> Regression:
    """Fit all members; `like` (a fit of more rows of the same data) lends what is slow to find.

    ValueError with too few workloads or networks.
    """
    networks = len(np.unique(samples.cells.network))
    if len(samples) < _FEWEST_ROWS or networks < _FEWEST_NETWORKS:
        raise ValueError("too few workloads were measured on both GPUs to learn from")
    forms = fit_forms(samples, target_seconds, like.forms if like else None)
    features = samples.features()
    centre, scale = features.mean(axis=0), np.maximum(features.std(axis=0), _LEAST_SCALE)
    return Regression(forms, (features - centre) / scale, centre, scale)
