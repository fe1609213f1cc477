"""Seconds of a step over the batch size, from two or three measured batch sizes.

Piecewise affine between the trials and on beyond them, times a learned correction: how steps of
other networks bend (launch-bound at small batches, short of memory at the largest).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.performance.networks import Floats

Places = NDArray[np.int_]
FOLDS = 3
_TREES = 150
# How much of the learned correction is kept: what is best on networks that were not learnt from.
_SHARES = (0.0, 0.5, 1.0)
# Fewer networks cannot say what holds for another one.
_FEWEST_NETWORKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCell:
    """A network on one device: seconds (b,) of its step at rising `batches` (b,).

    `pixels` is the width of the input image; seconds that nobody measured are nan.
    """

    network: str
    pixels: float
    batches: Floats
    seconds: Floats


def placements(count: int, trials: int) -> dict[str, Places]:
    """Where trials may stand among `count` batch sizes, by name; places are indices.

    "half": the smallest and the one before the largest (half of it), for at the largest batch a
    device may be short of memory, which tells little about the others; the third trial is the
    largest, where a line through the first two is carried farthest. "ends": the smallest and
    the largest; the third is the middle one.
    """
    found = {
        "half": (0, count - 2, count - 1)[:trials],
        "ends": (0, count - 1, count // 2)[:trials],
    }
    return {
        name: np.array(sorted(set(places)))
        for name, places in found.items()
        if len(set(places)) == trials and min(places) >= 0
    }


def affine_seconds(cell: BatchCell, places: Places) -> Floats:
    """Seconds (b,) at all batches of the cell from those at `places`, straight in between.

    Beyond the outer trials the nearest line goes on; a larger batch is never faster there.
    """
    batches, seconds = cell.batches[places], cell.seconds[places]
    part = np.clip(np.searchsorted(batches, cell.batches) - 1, 0, len(places) - 2)
    slope = (np.diff(seconds) / np.diff(batches))[part]
    outside = (cell.batches < batches[0]) | (cell.batches > batches[-1])
    slope = np.where(outside, np.maximum(slope, 0.0), slope)
    # The end at which the line is tied: the upper end for what lies below all trials.
    line = seconds[part] + slope * (cell.batches - batches[part])
    found: Floats = np.maximum(line, 0.1 * seconds.min())
    return found


def bends(cell: BatchCell, places: Places) -> Floats:
    """Features (b, f) that a user of the trials has: slopes, positions, sizes."""
    batches, seconds = cell.batches[places], cell.seconds[places]
    span = np.log(batches[-1] / batches[0])
    slopes = np.diff(np.log(seconds)) / np.diff(np.log(batches))
    alike = [*slopes, np.log(seconds[0]), np.log(seconds[-1] / batches[-1]), np.log(cell.pixels)]
    own = [
        np.log(cell.batches / batches[0]) / span,
        np.log(cell.batches / batches[-2]) / span,
        np.log(cell.batches),
    ]
    return np.column_stack([np.tile(alike, (len(cell.batches), 1)), *own])


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCurves:
    """Completes cells from `trials` measured batches; of `learned` only `share` is applied."""

    trials: int
    placement: str
    learned: Any = None
    share: float = 0.0

    def places(self, cell: BatchCell) -> Places | None:
        """Which of the cell's batches to measure; None where nothing would be left to predict."""
        if len(cell.batches) <= self.trials:
            return None
        return placements(len(cell.batches), self.trials).get(self.placement)

    def predict(self, cell: BatchCell, places: Places) -> Floats:
        """Seconds (b,) at all batches of the cell; only those at `places` are looked at."""
        plain = affine_seconds(cell, places)
        if self.learned is None:
            return plain
        corrected: Floats = plain * np.exp(self.share * self.learned.predict(bends(cell, places)))
        corrected[places] = cell.seconds[places]
        return corrected


def fit_batch_curves(
    cells: Sequence[BatchCell], trials: int, *, placement: str | None = None
) -> BatchCurves:
    """Learns from fully measured cells of other networks.

    Without a `placement`, the one whose affine errors are smallest on these cells.
    """
    chosen = placement or _best_placement(cells)
    plain = BatchCurves(trials=trials, placement=chosen)
    rows = [_targets(cell, places) for cell in cells if (places := plain.places(cell)) is not None]
    if not rows:
        return plain
    features, targets, groups = (np.concatenate(part) for part in zip(*rows, strict=True))
    if len(np.unique(groups)) < _FEWEST_NETWORKS:
        return plain
    share = _best_share(features, targets, groups)
    learned = _learner().fit(features, targets) if share else None
    return replace(plain, learned=learned, share=share)


def _targets(cell: BatchCell, places: Places) -> tuple[Floats, Floats, NDArray[np.str_]]:
    left = np.setdiff1d(np.arange(len(cell.batches)), places)
    targets = np.log(cell.seconds / affine_seconds(cell, places))[left]
    return bends(cell, places)[left], targets, np.full(len(left), cell.network)


def _best_placement(cells: Sequence[BatchCell]) -> str:
    """Where two trials tell an affine curve most; a third one does not move the first two."""
    errors: dict[str, list[float]] = {name: [] for name in ("half", "ends")}
    for cell in cells:
        if len(cell.batches) > 2:
            for name, places in placements(len(cell.batches), 2).items():
                errors[name].extend(np.abs(np.expm1(-_targets(cell, places)[1])))
    return min(errors, key=lambda name: np.mean(errors[name]) if errors[name] else np.inf)


def _best_share(features: Floats, targets: Floats, groups: NDArray[np.str_]) -> float:
    """The share of the correction with the least mean error on networks it did not see."""
    from sklearn.model_selection import GroupKFold, cross_val_predict

    folds = GroupKFold(min(FOLDS, len(np.unique(groups))))
    found = cross_val_predict(_learner(), features, targets, groups=groups, cv=folds)
    errors = [np.abs(np.expm1(share * found - targets)).mean() for share in _SHARES]
    return _SHARES[int(np.argmin(errors))]


def _learner() -> Any:
    """Extremely random trees: as good as boosting, their mean, neighbours or a Gaussian process."""
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(_TREES, min_samples_leaf=2, random_state=0)
