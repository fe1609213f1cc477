"""Fit on measured GPUs, predict GPUs that nobody measured, and say how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.performance.datasheet.contradictions import contradicts_its_source
from models.performance.datasheet.fitting import ROW_SIGMA, Fitted, design, fit_effects
from models.performance.datasheet.records import RateRow
from models.performance.networks import Floats

# A run's miss is the GPU's in part and the workload's in part; between GPUs (0.11: the offsets'
# priors together) and between the workloads of one GPU rates scatter alike.
_SHARE_OF_GPU = 0.5


class NothingKnown(ValueError):
    """There is no row to fit on, or none that a prediction may stand on."""


class DataSheetModel:
    """Rates of networks on GPUs from data sheets.

    `fit(rows)` first drops the rows that contradict their own source (`left_out` keeps them).
    `predict(rows)` gives samples per second; rows of networks, tasks or precisions that were not
    fitted, or without a data sheet, raise `NothingKnown` (`can_predict` tells).
    """

    def __init__(self) -> None:
        self.left_out: tuple[RateRow, ...] = ()
        self._rows: tuple[RateRow, ...] = ()
        self._workloads: frozenset[str] = frozenset()

    def fit(self, rows: Sequence[RateRow]) -> DataSheetModel:
        """Keep the rows; the effects are solved for when it is known what is asked.

        Raises NothingKnown without any row that has a data sheet.
        """
        wrong = contradicts_its_source(rows)
        self.left_out = tuple(row for row, bad in zip(rows, wrong, strict=True) if bad)
        self._rows = tuple(row for row, bad in zip(rows, wrong, strict=True) if not bad)
        listed = [row for row in self._rows if row.gpu is not None]
        self._workloads = frozenset(row.workload for row in listed)
        if not listed:
            raise NothingKnown("no measured rate of a GPU with a data sheet to learn from")
        return self

    @property
    def workloads(self) -> frozenset[str]:
        """'resnet50/training/fp32' and the like that rows with a data sheet told."""
        return self._workloads

    def effects(self) -> dict[str, float]:
        """All effects that the fitted rows have, by name (`effects.row_effects` adds them up)."""
        fitted = fit_effects(self._rows, ())
        return dict(zip(fitted.index, fitted.values.tolist(), strict=True))

    def can_predict(self, row: RateRow) -> bool:
        """Whether its network, task and precision were fitted, and its GPU has a data sheet."""
        return row.gpu is not None and row.workload in self._workloads

    def predict(self, rows: Sequence[RateRow]) -> Floats:
        """Samples per second, shape (n,)."""
        logs, _ = self._logs(rows, self._solved(rows))
        rates: Floats = 1000 * np.exp(-logs)
        return rates

    def predict_with_sigma(self, rows: Sequence[RateRow]) -> tuple[Floats, Floats]:
        """Samples per second and the standard deviation of their logs, each of shape (n,)."""
        fitted = self._solved(rows)
        logs, derivatives = self._logs(rows, fitted)
        variance = np.einsum("re,ef,rf->r", derivatives, fitted.covariance, derivatives)
        return 1000 * np.exp(-logs), np.sqrt(variance + ROW_SIGMA**2)

    def most_telling(self, rows: Sequence[RateRow]) -> int:
        """Which of the rows, once measured, takes most of the doubt from all of them."""
        fitted = self._solved(rows)
        _, derivatives = self._logs(rows, fitted)
        covariance = derivatives @ fitted.covariance @ derivatives.T
        gains = (covariance**2).sum(axis=0) / (np.diag(covariance) + ROW_SIGMA**2)
        return int(np.argmax(gains))

    @staticmethod
    def after_run(predicted: Floats, run: int, samples_per_second: float) -> Floats:
        """Predictions for one machine, moved by what its `run`-th row reached when measured."""
        moved: Floats = predicted * (samples_per_second / predicted[run]) ** _SHARE_OF_GPU
        moved[run] = samples_per_second
        return moved

    def _solved(self, rows: Sequence[RateRow]) -> Fitted:
        unknown = [row for row in rows if not self.can_predict(row)]
        if unknown:
            raise NothingKnown(
                f"{unknown[0].workload} on {unknown[0].gpu_name} cannot be told: the network was "
                "not measured on another GPU, or this one has no data sheet"
            )
        return fit_effects(self._rows, rows)

    @staticmethod
    def _logs(rows: Sequence[RateRow], fitted: Fitted) -> tuple[Floats, Floats]:
        return design(rows, fitted.index).logs(fitted.values)
