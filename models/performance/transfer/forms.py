"""The members of the ensemble: different ways from a workload on the anchor to the target.

Each learns a log ratio (never seconds themselves: relative errors count) from `Samples`. They
differ in what they start from and in how they generalise, so that their errors cancel in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.features import Samples
from models.performance.transfer.gaussian_process import GaussianProcess, fit_gaussian_process
from models.performance.transfer.mixing import with_mixtures

# Folds that only calibrate make do with fewer trees.
_TREES, _FOLD_TREES, _SEED = 80, 40, 4
_MIXTURES = 200


class Form(Protocol):
    """A fitted member: log seconds on the target, and how unsure it is itself (or None)."""

    def predict(self, samples: Samples) -> tuple[Floats, Floats | None]:
        """Log seconds (n,), and their standard deviation (n,) where the form knows one."""
        ...


@dataclass(frozen=True, slots=True)
class _Trees:
    forest: Any
    from_operations: bool

    def predict(self, samples: Samples) -> tuple[Floats, Floats | None]:
        start = _start(samples, self.from_operations)
        return start + self.forest.predict(samples.features()), None


@dataclass(frozen=True, slots=True)
class _Process:
    process: GaussianProcess
    regime_only: bool

    def predict(self, samples: Samples) -> tuple[Floats, Floats | None]:
        value, deviation = self.process.predict(_process_features(samples, self.regime_only))
        return samples.log_expected + value, deviation


def fit_forms(
    samples: Samples, target_seconds: Floats, start: Mapping[str, Form] | None = None
) -> dict[str, Form]:
    """All members by name. `start` lends the processes their kernels (folds of one data set)."""
    mixed, mixed_seconds = with_mixtures(samples, target_seconds, _MIXTURES)
    trees = _FOLD_TREES if start else _TREES
    forms: dict[str, Form] = {
        "trees/step": _fit_trees(mixed, mixed_seconds, trees, False),
        "process/all": _fit_process(mixed, mixed_seconds, "process/all", start),
    }
    if samples.target_operations is not None:
        forms["trees/operations"] = _fit_trees(mixed, mixed_seconds, trees, True)
        forms["process/regime"] = _fit_process(samples, target_seconds, "process/regime", start)
    return forms


def _fit_trees(
    samples: Samples, target_seconds: Floats, trees: int, from_operations: bool
) -> _Trees:
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(trees, max_features=0.5, random_state=_SEED)
    start = _start(samples, from_operations)
    return _Trees(forest.fit(samples.features(), np.log(target_seconds) - start), from_operations)


def _start(samples: Samples, from_operations: bool) -> Floats:
    return samples.log_expected if from_operations else np.log(samples.cells.seconds)


def _fit_process(
    samples: Samples, target_seconds: Floats, name: str, start: Mapping[str, Form] | None
) -> _Process:
    lender = start.get(name) if start else None
    features = _process_features(samples, name == "process/regime")
    values = np.log(target_seconds) - samples.log_expected
    kernel = lender.process if isinstance(lender, _Process) else None
    return _Process(fit_gaussian_process(features, values, kernel), name == "process/regime")


def _process_features(samples: Samples, regime_only: bool) -> Floats:
    if not regime_only:
        return samples.features()
    return np.column_stack([samples.size_features()[:, :3], samples.regime_features()[:, 1:5]])
