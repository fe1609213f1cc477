"""How long each class of operations of an anchor's profile takes on the target.

Networks that were profiled on both GPUs teach log(target / anchor) of every class by itself: the
ratios of a class differ far less between networks than those of whole steps do. A class that no
network taught goes by the data sheets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.performance.networks import Floats
from models.performance.transfer.cells import Cells, Names, Profiles
from models.performance.transfer.operations import CLASSES
from models.performance.transfer.sheets import Sheet, sheet_log_ratios, unmeasured_log_ratio

# Shorter sums of kernels are noise of the profiler's clock (microseconds a step).
_LEAST_ANCHOR_SECONDS, _LEAST_TARGET_SECONDS = 2e-5, 2e-6
# A class counts in full from this share of its step on: small shares are noisy and matter little.
_FULL_SHARE = 0.1
# The ridge stands for a fiftieth of the rows; features beyond 2.5 deviations are not extrapolated.
_RIDGE_SHARE, _FARTHEST = 0.02, 2.5

# Data sheets of anchor and target; None where one of them is not known.
SheetPair = tuple[Sheet, Sheet] | None


@dataclass(frozen=True, slots=True)
class _ClassRatio:
    """Ridge coefficients of one class on standardised features; the first is the intercept."""

    mean: Floats
    scale: Floats
    coefficients: Floats

    def log_ratio(self, features: Floats) -> Floats:
        standard = np.clip((features - self.mean) / self.scale, -_FARTHEST, _FARTHEST)
        value: Floats = self.coefficients[0] + standard @ self.coefficients[1:]
        return value


@dataclass(frozen=True, slots=True)
class OperationRatios:
    """Fitted ratios of one ordered pair of GPUs; None where no network taught a class."""

    ratios: Sequence[_ClassRatio | None]
    fallback: Floats

    def target_operations(self, cells: Cells) -> Floats:
        """Device seconds of every class on the target, (n, len(CLASSES))."""
        times = _operations(cells)
        out = np.empty_like(times)
        for column, ratio in enumerate(self.ratios):
            log_ratio = (
                np.full(len(cells), self.fallback[column])
                if ratio is None
                else ratio.log_ratio(_class_features(times[:, column], cells))
            )
            out[:, column] = times[:, column] * np.exp(log_ratio)
        return out

    def untaught_share(self, cells: Cells) -> Floats:
        """Share of the anchor's device time in classes that go by the data sheets."""
        times = _operations(cells)
        untaught = np.array([ratio is None for ratio in self.ratios])
        share: Floats = times[:, untaught].sum(axis=1) / times.sum(axis=1)
        return share


def fit_operation_ratios(
    cells: Cells, target: Profiles | None, sheets: SheetPair
) -> OperationRatios:
    """Ratios from `cells` (with profiles, completed) and the same workloads' target profiles."""
    if target is None or not target.known.any():
        return OperationRatios([None] * len(CLASSES), _sheet_fallback(sheets))
    times, there = _operations(cells), target.operations
    shares = times / times.sum(axis=1, keepdims=True)
    ratios = [
        _fit_class(times[:, k], there[:, k], shares[:, k], cells, target.known)
        for k in range(len(CLASSES))
    ]
    return OperationRatios(ratios, np.full(len(CLASSES), _untaught_log_ratio(ratios, sheets)))


def _sheet_fallback(sheets: SheetPair) -> Floats:
    return sheet_log_ratios(*sheets) if sheets else np.zeros(len(CLASSES))


def _untaught_log_ratio(ratios: Sequence[_ClassRatio | None], sheets: SheetPair) -> float:
    if sheets:
        return unmeasured_log_ratio(*sheets)
    return float(np.mean([ratio.coefficients[0] for ratio in ratios if ratio]))


def _fit_class(
    here: Floats, there: Floats, share: Floats, cells: Cells, known: NDArray[np.bool_]
) -> _ClassRatio | None:
    rows = known & (here > _LEAST_ANCHOR_SECONDS) & (there > _LEAST_TARGET_SECONDS)
    if not rows.any():
        return None
    features = _class_features(here, cells)[rows]
    weights = np.minimum(share[rows], _FULL_SHARE) / _FULL_SHARE + 1e-3
    return _ridge(features, np.log(there[rows] / here[rows]), weights)


def _ridge(features: Floats, values: Floats, weights: Floats) -> _ClassRatio:
    mean = np.average(features, axis=0, weights=weights)
    variance = np.average((features - mean) ** 2, axis=0, weights=weights)
    scale = np.sqrt(variance) + 1e-6
    design = np.column_stack([np.ones(len(features)), (features - mean) / scale])
    penalty = np.full(design.shape[1], _RIDGE_SHARE * len(features))
    penalty[0] = 0.0
    normal = design.T @ (design * weights[:, None]) + np.diag(penalty)
    return _ClassRatio(mean, scale, np.linalg.solve(normal, design.T @ (weights * values)))


def _class_features(times: Floats, cells: Cells) -> Floats:
    """Size of the work: a GPU's advantage grows with it until the GPU is full."""
    size = np.log(times + 1e-7)
    return np.column_stack([size, size**2 / 10, np.log(cells.batch), np.log(cells.image_px)])


def _operations(cells: Cells) -> Floats:
    if cells.profiles is None:
        raise ValueError("cells have no profiles; ask for a transfer without them")
    return cells.profiles.operations


def cross_fitted_operations(cells: Cells, target: Profiles | None, sheets: SheetPair) -> Floats:
    """Target operations of the fitted cells themselves, each network predicted by the others.

    What learns from these sees errors like those it will meet on a new network.
    """
    out = np.empty_like(_operations(cells))
    for name in _distinct(cells.network):
        inside = cells.network == name
        others = None if target is None else target[~inside]
        ratios = fit_operation_ratios(cells[~inside], others, sheets)
        out[inside] = ratios.target_operations(cells[inside])
    return out


def _distinct(names: Names) -> list[str]:
    return [str(name) for name in np.unique(names)]
