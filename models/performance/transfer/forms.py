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
from models.performance.transfer.additive import fit_additive_steps
from models.performance.transfer.features import Samples
from models.performance.transfer.gaussian_process import GaussianProcess, fit_gaussian_process
from models.performance.transfer.mixing import with_mixtures

# Folds that only calibrate make do with fewer trees.
_TREES, _FOLD_TREES, _SEED = 60, 30, 4
_MIXTURES = 200


class Form(Protocol):
    """A fitted member: log seconds on the target, and how unsure it is itself (or None)."""

    def predict(self, samples: Samples) -> tuple[Floats, Floats | None]:
        """Log seconds (n,), and their standard deviation (n,) where the form knows one."""
        ...


class _Start(Protocol):
    """Log seconds that a member begins with; it learns what is missing."""

    def __call__(self, samples: Samples) -> Floats: ...


@dataclass(frozen=True, slots=True)
class _Trees:
    forest: Any
    start: _Start

    def predict(self, samples: Samples) -> tuple[Floats, Floats | None]:
        return self.start(samples) + self.forest.predict(samples.features()), None


@dataclass(frozen=True, slots=True)
class _Process:
    process: GaussianProcess

    def predict(self, samples: Samples) -> tuple[Floats, Floats | None]:
        value, deviation = self.process.predict(samples.features())
        return samples.log_expected + value, deviation


def fit_forms(
    samples: Samples, target_seconds: Floats, start: Mapping[str, Form] | None = None
) -> dict[str, Form]:
    """All members by name. `start` lends the process its kernel (folds of one data set)."""
    mixed, mixed_seconds = with_mixtures(samples, target_seconds, _MIXTURES)
    trees = _FOLD_TREES if start else _TREES
    starts: dict[str, _Start] = {"trees/step": _own_step}
    if samples.target_operations is not None:
        additive = fit_additive_steps(mixed, mixed_seconds)
        starts |= {
            "trees/operations": _operations,
            "trees/ratio": _operation_ratio,
            "trees/additive": additive.log_seconds,
        }
    forms: dict[str, Form] = {"process": _fit_process(mixed, mixed_seconds, start)}
    for name, begin in starts.items():
        forms[name] = _fit_trees(mixed, mixed_seconds, begin, trees)
    return forms


def _own_step(samples: Samples) -> Floats:
    return np.log(samples.cells.seconds)


def _operations(samples: Samples) -> Floats:
    return samples.log_expected


def _operation_ratio(samples: Samples) -> Floats:
    """The anchor's step, times how its operations speed up: what profiles miss cancels."""
    if samples.cells.profiles is None:
        raise ValueError("operations need profiles")
    here = samples.cells.profiles.operations.sum(axis=1)
    ratio: Floats = _own_step(samples) + samples.log_expected - np.log(here)
    return ratio


def _fit_trees(samples: Samples, target_seconds: Floats, start: _Start, trees: int) -> _Trees:
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(trees, max_features=0.5, random_state=_SEED)
    rest = np.log(target_seconds) - start(samples)
    return _Trees(forest.fit(samples.features(), rest), start)


def _fit_process(
    samples: Samples, target_seconds: Floats, start: Mapping[str, Form] | None
) -> _Process:
    lender = start.get("process") if start else None
    kernel = lender.process if isinstance(lender, _Process) else None
    values = np.log(target_seconds) - samples.log_expected
    return _Process(fit_gaussian_process(samples.features(), values, kernel))
