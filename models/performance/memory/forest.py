"""A forest that answers with weighted quantiles of its neighbours; scikit-learn in `fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.performance.networks import Floats

# Targets are cut here while the trees grow: a wrong measurement shall not shape them.
_CUT = 0.4
_TREES, _LEAF = 150, 2
_QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class MedianForest:
    """Meinshausen's quantile regression forest (JMLR 7, 2006) on extremely random trees.

    A row's neighbours are the fitted rows that share its leaves; a network that was measured in
    other variants is found by its twin, and a single wrong row does not move a median.
    """

    trees: Any
    leaves: NDArray[np.int64]
    targets: Floats

    @classmethod
    def fit(cls, features: Floats, targets: Floats) -> MedianForest:
        """Grow the trees on features (n, k) and targets (n,)."""
        from sklearn.ensemble import ExtraTreesRegressor

        order = np.argsort(targets)
        trees = ExtraTreesRegressor(
            _TREES, min_samples_leaf=_LEAF, max_features=0.7, random_state=0
        ).fit(features[order], np.clip(targets[order], -_CUT, _CUT))
        return cls(trees, trees.apply(features[order]), targets[order])

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Median, and half the distance of the 10 % and 90 % quantiles, shape (m,) each."""
        weights = np.zeros((len(features), len(self.targets)), dtype=np.float32)
        for asked, fitted in zip(self.trees.apply(features).T, self.leaves.T, strict=True):
            together = asked[:, None] == fitted[None, :]
            weights += together / together.sum(axis=1, keepdims=True)
        shares = np.cumsum(weights, axis=1) / _TREES
        low, median, high = (
            self.targets[(shares >= one - 1e-6).argmax(axis=1)] for one in _QUANTILES
        )
        return median, (high - low) / 2
