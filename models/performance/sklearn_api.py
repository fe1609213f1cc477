"""The two regressions on plain arrays, as scikit-learn's pipelines and grid searches want them.

Only whoever combines them with scikit-learn imports this: predictions of the product never do.
Everything else that is fitted here takes records (workloads, GPUs, trials), not arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from models.performance.memory.forest import MedianForest
from models.performance.networks import Floats
from models.performance.transfer.gaussian_process import GaussianProcess, fit_gaussian_process


class _ArrayRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """`fit(X, y)` and `predict(X)` around a fitted record whose `predict` gives (value, doubt)."""

    fitted_: Any

    def fit(self, X: Any, y: Any) -> _ArrayRegressor:
        """Fit y (n,) on X (n, d); ValueError for what is no finite matrix of two rows or more."""
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=2)
        self.fitted_ = self._fitted(np.asarray(X, dtype=float), np.asarray(y, dtype=float))
        return self

    def predict(self, X: Any) -> Floats:
        """Predicted values (m,) for X (m, d)."""
        return self.predict_with_doubt(X)[0]

    def predict_with_doubt(self, X: Any) -> tuple[Floats, Floats]:
        """Values and how far they may be off, (m,) each."""
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False), dtype=float)
        value, doubt = self.fitted_.predict(X)
        return value, doubt

    def _fitted(self, features: Floats, values: Floats) -> Any:
        raise NotImplementedError


class GaussianProcessEstimator(_ArrayRegressor):
    """`transfer.gaussian_process`; the doubt is a standard deviation."""

    def _fitted(self, features: Floats, values: Floats) -> GaussianProcess:
        return fit_gaussian_process(features, values)


class MedianForestEstimator(_ArrayRegressor):
    """`memory.forest`; the doubt is half the distance of the 10 % and 90 % quantiles."""

    def _fitted(self, features: Floats, values: Floats) -> MedianForest:
        return MedianForest.fit(features, values)
