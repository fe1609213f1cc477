"""How long each class of operations of an anchor's profile takes on the target.

Networks that were profiled on both GPUs teach log(target / anchor) of every class by itself: the
ratios of a class differ far less between networks than those of whole steps do. A class that no
network taught goes by the data sheets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.cells import Cells, Names, Profiles
from models.performance.transfer.operations import CLASSES, TRANSFER
from models.performance.transfer.sheets import Sheet, sheet_log_ratios, unmeasured_log_ratio

# Shorter sums of kernels are noise of the profiler's clock (microseconds a step).
_LEAST_ANCHOR_SECONDS, _LEAST_TARGET_SECONDS = 2e-5, 2e-6
# A class counts in full from this share of its step on: small shares are noisy and matter little.
_FULL_SHARE = 0.1
_TINY = 1e-6
_CONVOLUTIONS = ("convolution", "convolution_filter_gradient", "convolution_input_gradient")
_MOVING = (
    "normalisation", "pooling", "pooling_gradient", "activation", "activation_gradient", "bias",
)  # fmt: skip
# Covariance of log ratios, in units of what varies with the work: a wide common level, a weak
# slope, and Matern 3/2 over about one deviation of every feature. Held-out errors hardly move
# between half and twice these (9.3 to 9.7 % of the device time), so they are not fitted.
_LEVEL, _SLOPE, _LENGTH, _NOISE = 4.0, 0.01, 1.2, 0.1
# The linear one: a ridge that stands for five rows, in units of its noise.
_ANY_LEVEL, _STRAIGHT_SLOPE, _STRAIGHT_FEATURES = 100.0, 0.2, 4
# Slopes are not followed further than this many deviations from what was seen.
_FARTHEST = 2.5
# Data sheets of anchor and target; None where one of them is not known.
SheetPair = tuple[Sheet, Sheet] | None


@dataclass(frozen=True, slots=True)
class _Smoother:
    """A Gaussian process with fixed covariance: standardised rows and their pulls."""

    mean: Floats
    scale: Floats
    rows: Floats
    pulls: Floats
    linear: bool

    def value(self, features: Floats) -> Floats:
        points = (features - self.mean) / self.scale
        value: Floats = _covariance(points, self.rows, self.linear) @ self.pulls
        return value


@dataclass(frozen=True, slots=True)
class _ClassRatio:
    """The log ratio of one class: the mean of a curved process over all features, and of a linear
    one over the first few. One errs by chance where the other errs by stiffness."""

    curved: _Smoother
    straight: _Smoother

    def log_ratio(self, features: Floats) -> Floats:
        straight = self.straight.value(features[:, :_STRAIGHT_FEATURES])
        return 0.5 * (self.curved.value(features) + straight)


@dataclass(frozen=True, slots=True)
class OperationRatios:
    """Fitted ratios of one ordered pair of GPUs; None where no network taught a class.

    `cross_fitted` (n, classes) are the target's operations of the rows that were fitted, each
    predicted without its network: what learns from them meets errors like those of new networks.
    """

    ratios: Sequence[_ClassRatio | None]
    fallback: Floats
    cross_fitted: Floats

    def target_operations(self, cells: Cells) -> Floats:
        """Device seconds of every class on the target, (n, len(CLASSES))."""
        times, features = _operations(cells), _class_features(cells)
        logs = np.empty_like(times)
        for column, ratio in enumerate(self.ratios):
            logs[:, column] = (
                self.fallback[column] if ratio is None else ratio.log_ratio(features[column])
            )
        seconds: Floats = times * np.exp(logs)
        return seconds

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
    times, features = _operations(cells), _class_features(cells)
    if target is None or not target.known.any():
        fallback = sheet_log_ratios(*sheets) if sheets else np.zeros(len(CLASSES))
        return OperationRatios([None] * len(CLASSES), fallback, times * np.exp(fallback))
    shares = times / times.sum(axis=1, keepdims=True)
    ratios: list[_ClassRatio | None] = []
    logs = np.full_like(times, np.nan)
    for column in range(len(CLASSES)):
        here, there = times[:, column], target.operations[:, column]
        rows = target.known & (here > _LEAST_ANCHOR_SECONDS) & (there > _LEAST_TARGET_SECONDS)
        if not rows.any():
            ratios.append(None)
            continue
        weights = np.minimum(shares[rows, column], _FULL_SHARE) / _FULL_SHARE + 1e-3
        values = np.log(there[rows] / here[rows])
        names = cells.network[rows]
        ratio, left_out = _fit_class(features[column][rows], values, weights, names)
        ratios.append(ratio)
        logs[:, column] = ratio.log_ratio(features[column])
        logs[rows, column] = left_out
    untaught = _untaught_log_ratio(logs, sheets)
    logs = np.where(np.isfinite(logs), logs, untaught)
    return OperationRatios(ratios, np.full(len(CLASSES), untaught), times * np.exp(logs))


def _untaught_log_ratio(logs: Floats, sheets: SheetPair) -> float:
    """By the sheets, or without them like the other classes."""
    return unmeasured_log_ratio(*sheets) if sheets else float(np.nanmedian(logs))


def _fit_class(
    features: Floats, values: Floats, weights: Floats, network: Names
) -> tuple[_ClassRatio, Floats]:
    """The ratio of one class, and every row's value predicted without its network."""
    curved, left = _fit_smoother(features, values, _NOISE / weights, network, linear=False)
    few = features[:, :_STRAIGHT_FEATURES]
    straight, also_left = _fit_smoother(few, values, 1.0 / weights, network, linear=True)
    return _ClassRatio(curved, straight), 0.5 * (left + also_left)


def _fit_smoother(
    features: Floats, values: Floats, noise: Floats, network: Names, *, linear: bool
) -> tuple[_Smoother, Floats]:
    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
    rows = (features - mean) / scale
    inverse = np.linalg.inv(_covariance(rows, rows, linear) + np.diag(noise))
    pulls = inverse @ values
    left_out = np.empty_like(values)
    for name in np.unique(network):
        mine = network == name
        # The error of a block predicted from all other rows, of the one inverse (Rasmussen and
        # Williams, section 5.4.2, with a block in place of a row).
        error = np.linalg.solve(inverse[np.ix_(mine, mine)], pulls[mine])
        left_out[mine] = values[mine] - error
    return _Smoother(mean, scale, rows, pulls, linear), left_out


def _covariance(left: Floats, right: Floats, linear: bool) -> Floats:
    """Covariance of standardised rows, (n, m)."""
    near, far = np.clip(left, -_FARTHEST, _FARTHEST), np.clip(right, -_FARTHEST, _FARTHEST)
    products = near @ far.T
    if linear:
        straight: Floats = _ANY_LEVEL + _STRAIGHT_SLOPE * products
        return straight
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None] - 2 * left @ right.T
    distance = np.sqrt(3 * np.maximum(squares, 0.0) / left.shape[1]) / _LENGTH
    covariance: Floats = _LEVEL + _SLOPE * products + (1 + distance) * np.exp(-distance)
    return covariance


def _class_features(cells: Cells) -> list[Floats]:
    """For each class (n, 8): size of its work, and what kind of network it stands in.

    A GPU's advantage grows with the work until the GPU is full. Time in convolutions against time
    in layers that move memory tells how many channels there are; how a convolution's time splits
    over its forward and backward kernels tells their shapes.
    """
    times = _operations(cells)
    column = {name: times[:, k] for k, name in enumerate(CLASSES)}
    convolutions = np.log(sum(column[name] for name in _CONVOLUTIONS) + _TINY)
    moving = np.log(sum(column[name] for name in _MOVING) + _TINY)
    total = np.log(times.sum(axis=1) - column[TRANSFER] + _TINY)
    shape = [np.log(cells.batch), np.log(cells.image_px)]
    kind = [
        convolutions - moving,
        np.log(column["convolution"] + _TINY) - convolutions,
        np.log(column["convolution_input_gradient"] + _TINY) - convolutions,
    ]
    sizes = np.log(times + _TINY / 10)
    return [np.column_stack([size, size**2 / 10, *shape, *kind, size - total]) for size in sizes.T]


def _operations(cells: Cells) -> Floats:
    if cells.profiles is None:
        raise ValueError("cells have no profiles; ask for a transfer without them")
    return cells.profiles.operations
