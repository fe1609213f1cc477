"""Fits the GPU memory model on measured peaks, or on which batches ran. SciPy and scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.errors import DataError
from models.performance.memory.forest import MedianForest
from models.performance.memory.peak import PeakModel
from models.performance.memory.rows import StepRows
from models.performance.networks import Floats

Mask = NDArray[np.bool_]

# Parts that networks are dealt into: each part's errors come from a member that has not seen it.
_PARTS = 3
_FEWEST_ROWS = 10
# A remainder needs networks to learn from; with fewer the straight lines stand alone.
_FEWEST_NETWORKS = 40
_SMALLEST_SCALE = 0.01


@dataclass(frozen=True, slots=True)
class Member:
    """A median forest and boosted trees, fitted on some of the networks."""

    forest: MedianForest
    boosted: Any

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Mean of both log corrections, and half the forest's central 80 %, shape (n,) each."""
        median, spread = self.forest.predict(features)
        return (median + self.boosted.predict(features)) / 2, spread


@dataclass(frozen=True, slots=True)
class LearntRemainder:
    """A member fitted on every network; satisfies `peak.Remainder`."""

    member: Member

    def correction(self, rows: StepRows) -> tuple[Floats, Floats]:
        """Its correction, and its spread as the scale of the doubt."""
        log, spread = self.member.predict(rows.features())
        return log, np.maximum(spread, _SMALLEST_SCALE)


@dataclass(frozen=True, slots=True)
class FittedPeaks:
    """The model, and log(measured / predicted) of every row by a member that missed its network."""

    model: PeakModel
    held_out_log: Floats


def fit_peaks(rows: StepRows, measured_mib: Floats, networks: Sequence[str]) -> FittedPeaks:
    """A model of measured peaks, MiB of shape (n,), of the named networks.

    Straight lines by least absolute relative errors with slopes >= 0, then a forest and boosted
    trees on the log remainder. The same fitted three times, each time without a third of the
    networks, gives the errors that carry the bounds. Raises `DataError` with fewer than ten rows.
    """
    if len(rows) < _FEWEST_ROWS:
        raise DataError(f"{len(rows)} measured peaks are too few to fit on; {_FEWEST_ROWS} are not")
    names = np.asarray(networks)
    context, slopes = _straight_lines(rows, measured_mib)
    log = np.log(measured_mib / (context + rows.terms() @ slopes))
    if len(np.unique(names)) < _FEWEST_NETWORKS:
        return _without_remainder(context, slopes, log, len(rows))
    features = rows.features()
    left, scale = np.empty(len(rows)), np.empty(len(rows))
    for held_out in _parts(names):
        predicted, scale[held_out] = _member(features[~held_out], log[~held_out]).predict(
            features[held_out]
        )
        left[held_out] = log[held_out] - predicted
    model = PeakModel(
        context_mib=context,
        slopes=tuple(slopes.tolist()),
        errors=tuple(np.sort(left / np.maximum(scale, _SMALLEST_SCALE)).tolist()),
        trained_on=f"{len(rows)} measured peaks of {len(np.unique(names))} networks",
        remainder=LearntRemainder(_member(features, log)),
    )
    return FittedPeaks(model, left)


def contradicted(batches: Floats, measured_mib: Floats, networks: Sequence[str]) -> Mask:
    """Rows whose network showed no more memory at a larger batch: one of the two is wrong."""
    names = np.asarray(networks)
    wrong = np.zeros(len(names), dtype=bool)
    for name in np.unique(names):
        mine = np.flatnonzero(names == name)
        for row in mine:
            larger = mine[batches[mine] > batches[row]]
            wrong[row] = bool((measured_mib[larger] <= measured_mib[row]).any())
    return wrong


def _parts(names: NDArray[Any]) -> Iterator[Mask]:
    """Masks of the rows of every third network, shuffled with a fixed seed."""
    distinct = np.random.default_rng(0).permutation(np.unique(names))
    for part in range(_PARTS):
        yield np.isin(names, distinct[part::_PARTS])


def _straight_lines(rows: StepRows, measured: Floats) -> tuple[float, Floats]:
    """Context and slopes, all >= 0, by iteratively reweighted relative least squares."""
    from scipy.optimize import nnls

    columns = np.column_stack([np.ones(len(rows)), rows.terms()]) / measured[:, None]
    weights = np.ones(len(rows))
    for _ in range(20):
        solution, _norm = nnls(columns * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(columns @ solution - 1), 0.01))
    return float(solution[0]), np.asarray(solution[1:])


def _member(features: Floats, log: Floats) -> Member:
    from sklearn.ensemble import GradientBoostingRegressor

    boosted = GradientBoostingRegressor(
        loss="absolute_error",
        n_estimators=300,
        max_depth=7,
        learning_rate=0.05,
        subsample=0.7,
        max_features=0.5,
        min_samples_leaf=3,
        random_state=0,
    )
    return Member(MedianForest.fit(features, log), boosted.fit(features, log))


def _without_remainder(context: float, slopes: Floats, log: Floats, count: int) -> FittedPeaks:
    model = PeakModel(
        context_mib=context,
        slopes=tuple(slopes.tolist()),
        errors=tuple(np.sort(log).tolist()),
        trained_on=f"{count} measured peaks, without a remainder",
    )
    return FittedPeaks(model, log)
