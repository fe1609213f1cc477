"""Intervals of transferred step times, calibrated on networks that were held out.

Normalised split conformal prediction: scores are |log(observed / predicted)| over the doubt that
the prediction itself has. Every held-out network counts alike, whatever the number of its rows:
the next network is new, not the next row (row-wise calibration covered 19 % of the worst one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.intervals import gaussian_multiplier
from models.performance.networks import Floats
from models.performance.transfer.across_gpus import AcrossGpus
from models.performance.transfer.cells import Cells, Names
from models.performance.transfer.regression import fit_regression

_FOLDS = 4


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows predicted by fits without their network, (n,) each.

    `residuals` are log(observed / predicted) step seconds on the target, `seconds` the observed.
    """

    residuals: Floats
    doubt: Floats
    seconds: Floats
    cells: Cells

    def half_widths(self, doubt: Floats, confidence: float) -> Floats:
        """Distance in log seconds to `lower` and `upper`, each at the one-sided confidence."""
        return doubt * self.quantile(2 * confidence - 1)

    def deviations(self, doubt: Floats) -> Floats:
        """The standard deviation of a normal error with the same 80 % interval."""
        return self.half_widths(doubt, 0.9) / gaussian_multiplier(0.9)

    def quantile(self, level: float) -> float:
        """The score that a share `level` of a new network's rows stays below."""
        scores = np.abs(self.residuals) / self.doubt
        _, member, counts = np.unique(self.cells.network, return_inverse=True, return_counts=True)
        weights = 1.0 / counts[member]
        order = np.argsort(scores)
        below = np.cumsum(weights[order])
        # No term for one network more (n + 1): fits of the folds lack a quarter of the networks,
        # and so err more than the fit that is used.
        return float(scores[order][np.argmax(below / len(counts) >= level - 1e-9)])


def hold_out(model: AcrossGpus, folds: int = _FOLDS) -> HeldOut:
    """Residuals of the rows that taught `model`, in folds of whole networks.

    The operation times of every row were carried over without its network already.
    """
    samples, log_seconds = model.samples, np.log(model.seconds)
    residuals, doubt = np.full(len(samples), np.nan), np.full(len(samples), np.nan)
    for names in network_folds(samples.cells.network, folds):
        inside = np.isin(samples.cells.network, names)
        try:
            fitted = fit_regression(samples[~inside], model.seconds[~inside], model.regression)
        except ValueError:
            continue
        answer = fitted.predict(samples[inside])
        residuals[inside] = log_seconds[inside] - answer.log_seconds
        doubt[inside] = answer.doubt
    known = np.isfinite(residuals)
    if not known.any():
        raise ValueError("too few networks were measured on both GPUs to calibrate intervals")
    return HeldOut(residuals[known], doubt[known], model.seconds[known], samples.cells[known])


def network_folds(network: Names, folds: int) -> list[Sequence[str]]:
    """Names dealt to folds in turn; neighbours in the alphabet (vgg11, vgg13) land apart."""
    names = [str(name) for name in np.unique(network)]
    return [part for part in (names[k::folds] for k in range(folds)) if part]
