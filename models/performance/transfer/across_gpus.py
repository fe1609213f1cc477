"""From a workload measured on one GPU to its step time on another measured GPU.

The log ratio of the two GPUs is learned from networks that ran on both. With a profile of the
anchor's operations, each class is carried over by itself first (`operation_ratios`), and the
regressions learn what is left: how operations, launches and copies make a step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.cells import Cells, Profiles, completed
from models.performance.transfer.features import Samples
from models.performance.transfer.operation_ratios import (
    OperationRatios,
    SheetPair,
    fit_operation_ratios,
)
from models.performance.transfer.regression import Regression, Transferred, fit_regression


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPair:
    """Workloads measured on anchor and target: `seconds` and `profiles` are the target's."""

    anchor: Cells
    seconds: Floats
    profiles: Profiles | None
    sheets: SheetPair = None

    def without(self, network: str) -> TrainingPair:
        """The pair less all rows of one network."""
        return self.rows(self.anchor.network != network)

    def rows(self, kept: np.ndarray) -> TrainingPair:
        """Some of the rows."""
        return replace(
            self,
            anchor=self.anchor[kept],
            seconds=self.seconds[kept],
            profiles=None if self.profiles is None else self.profiles[kept],
        )

    def without_profiles(self) -> TrainingPair:
        """The same pair for an anchor that was not profiled."""
        return replace(self, anchor=self.anchor.without_profiles(), profiles=None)


@dataclass(frozen=True, slots=True)
class AcrossGpus:
    """A fitted transfer of one ordered pair of GPUs, with the rows that it was taught by."""

    ratios: OperationRatios | None
    regression: Regression
    samples: Samples
    seconds: Floats

    def predict(self, anchor: Cells) -> Transferred:
        """Seconds on the target for workloads measured on the anchor, (n,) each."""
        if self.ratios is None:
            return self.regression.predict(Samples(anchor.without_profiles(), None))
        cells = _completed_cells(anchor)
        return self.regression.predict(Samples(cells, self.ratios.target_operations(cells)))


def fit_across_gpus(pair: TrainingPair) -> AcrossGpus:
    """Fit one ordered pair of GPUs.

    Rows of the anchor without a profile are left out where others have one. ValueError with
    fewer than twelve workloads of three networks: two GPUs then have a ratio at most.
    """
    pair = _profiled(pair)
    ratios, samples = _training_samples(pair)
    return AcrossGpus(ratios, fit_regression(samples, pair.seconds), samples, pair.seconds)


def _profiled(pair: TrainingPair) -> TrainingPair:
    if pair.anchor.profiles is None:
        return pair
    known = pair.anchor.profiles.known
    return pair.rows(known) if known.any() else pair.without_profiles()


def _training_samples(pair: TrainingPair) -> tuple[OperationRatios | None, Samples]:
    if pair.anchor.profiles is None:
        return None, Samples(pair.anchor, None)
    cells = _completed_cells(pair.anchor)
    there = None if pair.profiles is None else completed(pair.profiles, pair.seconds)
    ratios = fit_operation_ratios(cells, there, pair.sheets)
    return ratios, Samples(cells, ratios.cross_fitted)


def _completed_cells(cells: Cells) -> Cells:
    if cells.profiles is None:
        raise ValueError("the transfer was fitted with profiles; these workloads have none")
    return replace(cells, profiles=completed(cells.profiles, cells.seconds))
