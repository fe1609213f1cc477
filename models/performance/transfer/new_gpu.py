"""To and from a GPU that nobody measured: operations go by the data sheets of both.

Each class of operations scales by a power of the ratio of fp32 rates and of memory bandwidths, and
by a step a generation (libraries come nearer to the peak of newer architectures). The powers have
priors (arithmetic by rate, the rest by bandwidth) and move as far as the measured pairs demand.
What operations, gaps and copies make of a step is learned from all measured pairs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.across_gpus import TrainingPair
from models.performance.transfer.cells import Cells, Profiles, completed
from models.performance.transfer.features import Samples
from models.performance.transfer.gaussian_process import GaussianProcess, fit_gaussian_process
from models.performance.transfer.operations import CLASSES, COMPUTE_BOUND, TRANSFER
from models.performance.transfer.sheets import Sheet

_LEAST_SECONDS = 2e-5
# Prior deviations of the powers of (fp32 rate, bandwidth, generation), and of a pair's own log
# ratio of a class around what the powers say. One generation is one of compute capability.
_POWER_SIGMAS = np.array([0.2, 0.2, 0.08])
_GENERATION = 0.08
_PAIR_SIGMA = 0.3
_TREES, _SEED = 80, 5
_FEWEST_ROWS = 12


@dataclass(frozen=True, slots=True)
class TaughtPair:
    """An ordered pair of measured GPUs with their data sheets."""

    pair: TrainingPair
    sheets: tuple[Sheet, Sheet]

    @property
    def usable(self) -> bool:
        """Whether there are profiles of the anchor to learn from."""
        profiles = self.pair.anchor.profiles
        return profiles is not None and bool(profiles.known.any())


@dataclass(frozen=True, slots=True)
class SheetTransfer:
    """Powers by class (classes, 3), and regressions on the rest; None with too few rows."""

    powers: Floats
    process: GaussianProcess | None
    forest: Any

    def predict(self, anchor: Cells, sheets: tuple[Sheet, Sheet]) -> Floats:
        """Log seconds on the target, (n,), for workloads with profiles."""
        samples = _samples(anchor, self.powers, sheets)
        if self.process is None:
            here = np.log(_profiles_of(samples.cells).operations.sum(axis=1))
            scaled: Floats = np.log(anchor.seconds) + samples.log_expected - here
            return scaled
        features = _features(samples)
        rest = 0.5 * (self.process.predict(features)[0] + self.forest.predict(features))
        predicted: Floats = samples.log_expected + rest
        return predicted


def fit_sheet_transfer(pairs: Sequence[TaughtPair]) -> SheetTransfer:
    """Fit on all ordered pairs of measured GPUs; without any, data sheets alone speak."""
    pairs = [_known_rows(one) for one in pairs]
    powers = _fitted_powers(pairs)
    if sum(len(one.pair.anchor) for one in pairs) < _FEWEST_ROWS:
        return SheetTransfer(powers, None, None)
    samples = [_samples(one.pair.anchor, powers, one.sheets) for one in pairs]
    features = np.concatenate([_features(one) for one in samples])
    rest = np.concatenate(
        [np.log(t.pair.seconds) - s.log_expected for t, s in zip(pairs, samples, strict=True)]
    )
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(_TREES, min_samples_leaf=2, random_state=_SEED)
    return SheetTransfer(powers, fit_gaussian_process(features, rest), forest.fit(features, rest))


def sheet_differences(sheets: tuple[Sheet, Sheet]) -> Floats:
    """What the powers multiply: log ratios (anchor over target) of rate, bandwidth, generation."""
    here, there = sheets
    return np.array(
        [
            np.log(here.fp32_tflops / there.fp32_tflops),
            np.log(here.memory_gb_per_second / there.memory_gb_per_second),
            here.generation - there.generation,
        ]
    )


def prior_powers(name: str) -> Floats:
    """The powers of a class before any measurement."""
    if name == TRANSFER:
        return np.zeros(3)
    if name in COMPUTE_BOUND:
        return np.array([1.0, 0.0, _GENERATION])
    return np.array([0.0, 1.0, _GENERATION])


def _fitted_powers(pairs: Sequence[TaughtPair]) -> Floats:
    powers = np.array([prior_powers(name) for name in CLASSES])
    for column in range(len(CLASSES)):
        seen = [(sheet_differences(one.sheets), _log_ratio(one.pair, column)) for one in pairs]
        seen = [(differences, value) for differences, value in seen if np.isfinite(value)]
        if seen:
            powers[column] = _posterior(powers[column], seen)
    return powers


def _posterior(prior: Floats, seen: Sequence[tuple[Floats, float]]) -> Floats:
    """Gaussian posterior mean of linear coefficients."""
    design = np.array([differences for differences, _ in seen]) / _PAIR_SIGMA
    values = np.array([value for _, value in seen]) / _PAIR_SIGMA
    precision = np.diag(_POWER_SIGMAS**-2)
    right = precision @ prior + design.T @ values
    return np.asarray(np.linalg.solve(precision + design.T @ design, right), dtype=float)


def _log_ratio(pair: TrainingPair, column: int) -> float:
    """Median log(target / anchor) of a class where it is long enough to be timed; else NaN."""
    here = _profiles_of(pair.anchor).operations[:, column]
    if pair.profiles is None:
        return float("nan")
    there = completed(pair.profiles, pair.seconds).operations[:, column]
    rows = (here > _LEAST_SECONDS) & (there > _LEAST_SECONDS)
    return float(np.median(np.log(there[rows] / here[rows]))) if rows.any() else float("nan")


def _samples(anchor: Cells, powers: Floats, sheets: tuple[Sheet, Sheet]) -> Samples:
    profiles = completed(_profiles_of(anchor), anchor.seconds)
    ratios = np.exp(powers @ sheet_differences(sheets))
    return Samples(replace(anchor, profiles=profiles), profiles.operations * ratios)


def _features(samples: Samples) -> Floats:
    """What holds for any GPU: sizes of the work, and gaps and copies relative to it."""
    return np.column_stack([samples.size_features()[:, 1:3], samples.regime_features()])


def _known_rows(one: TaughtPair) -> TaughtPair:
    return TaughtPair(one.pair.rows(_profiles_of(one.pair.anchor).known), one.sheets)


def _profiles_of(cells: Cells) -> Profiles:
    if cells.profiles is None:
        raise ValueError("a transfer by data sheets needs profiles of the anchor")
    return cells.profiles
