"""GPU memory as a scikit-learn estimator. What ships of it are its numbers, a `PeakModel`, which answers
evaluate by NumPy alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from advisor.models.bayes import Floats
from advisor.models.performance.memory.peak import PeakModel

_FOLDS = 5
_MOST_QUANTILES = 200
# The standard deviation is half the width that so much of a Gaussian lies in.
_ONE_SIGMA = 0.8413
# What is less than this is as much, in logarithms.
_LEAST_MIB = 1.0


class MemoryRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Peaks of GPU memory in MiB, as the driver shows them: a constant, CUDA's own, beside what a step takes.

    `X` (n, parts) are MiB of parts of a step (one column of all that torch reserves, or the fields of
    `StepMemory`), `y` measured peaks, `groups` (n,) families of networks: errors stand on constants that
    have not seen a row's own family, and are taken `margin` times as large, since who asks differs from
    whoever was measured as sources do. `model_` is what ships.
    """

    def __init__(self, *, margin: float = 1.7, trained_on: str = "") -> None:
        self.margin = margin
        self.trained_on = trained_on

    @classmethod
    def of(cls, model: PeakModel) -> Self:
        """The estimator that once gave this model."""
        made = cls(trained_on=model.trained_on)
        made.model_ = model
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of anything but parts that add up
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the constant on all rows, and its errors on rows whose group a fit has not seen."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype="numeric")
        step, peaks = X.sum(axis=1).astype(float), y.astype(float)
        weights = _check_sample_weight(sample_weight, X, dtype=float, allow_all_zero_weights=False)
        context = _context(step, peaks, weights)
        labels = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
        folds = min(_FOLDS, len(np.unique(labels)))
        told = step + context
        if folds > 1:
            for kept, out in GroupKFold(folds).split(step, groups=labels):
                told[out] = step[out] + _context(step[kept], peaks[kept], weights[kept])
        errors = np.log(np.maximum(peaks, _LEAST_MIB) / np.maximum(told, _LEAST_MIB))
        count = min(len(errors), _MOST_QUANTILES)
        ranks = (np.arange(count) + 0.5) / count
        quantiles = np.quantile(errors, ranks, weights=weights, method="inverted_cdf")
        self.model_ = PeakModel(
            context_mib=context, errors=tuple((self.margin * quantiles).tolist()), trained_on=self.trained_on
        )
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Peaks (n,) in MiB; with `return_std` their standard deviations too."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=not hasattr(self, "n_features_in_"))
        peaks: Floats = self.model_.context_mib + X.sum(axis=1)
        if not return_std:
            return peaks
        low, high = self.model_.bounds(_ONE_SIGMA)
        return peaks, np.abs(peaks) * (np.log(high) - np.log(low)) / 2


def _context(step: Floats, peaks: Floats, weights: Floats) -> float:
    """The weighted median of what peaks are above their steps: of a few wrong rows nothing."""
    return float(np.quantile(peaks - step, 0.5, weights=weights, method="inverted_cdf"))
