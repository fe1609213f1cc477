"""A few trials of a new network on the target correct the prediction of all its workloads.

The errors of one network on one GPU go together: they share an offset, and alike workloads err
alike. That covariance is estimated on held-out networks; the trials' errors then tell those of the
other workloads (Gaussian conditioning), and the most telling trial is the one that leaves the
least mean deviation: errors count by their size, not by its square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats
from models.performance.transfer.cells import Cells
from models.performance.transfer.conformal import HeldOut

# Log of: shared variance, variance of alike workloads, their length scale (in logs of the work),
# variance of a single row; all in units of the squared doubt. Priors are weak: an e-fold or two.
_PRIOR = np.log([1.0, 1.0, 1.5, 0.1])
_PRIOR_SIGMA = 1.5


@dataclass(frozen=True, slots=True)
class ErrorCovariance:
    """How errors of one network's workloads go together; logs as in `_PRIOR`."""

    parameters: Floats

    def matrix(self, cells: Cells, doubt: Floats) -> Floats:
        """Covariance of the log errors of workloads of one network, (n, n), without row noise."""
        shared, alike, length, _ = np.exp(self.parameters)
        where = _positions(cells) / length
        squares = ((where[:, None, :] - where[None, :, :]) ** 2).sum(axis=2)
        matrix: Floats = np.outer(doubt, doubt) * (shared + alike * np.exp(-0.5 * squares))
        return matrix

    def noise(self, doubt: Floats) -> Floats:
        """Variance of each row by itself, (n,)."""
        noise: Floats = np.exp(self.parameters[3]) * doubt**2
        return noise

    def choose(self, cells: Cells, doubt: Floats, count: int) -> list[int]:
        """The rows to try: each next one leaves the least deviation over all workloads."""
        chosen: list[int] = []
        for _ in range(min(count, len(cells))):
            free = [row for row in range(len(cells)) if row not in chosen]
            left = [self._deviation_left(cells, doubt, [*chosen, row]) for row in free]
            chosen.append(free[int(np.argmin(left))])
        return chosen

    def correction(
        self, cells: Cells, doubt: Floats, tried: Sequence[int], errors: Floats
    ) -> tuple[Floats, Floats]:
        """Expected log error of every workload, and its variance, given `errors` of the tried."""
        covariance = self.matrix(cells, doubt)
        rows = list(tried)
        known = covariance[np.ix_(rows, rows)] + np.diag(self.noise(doubt)[rows])
        gain = np.linalg.solve(known, covariance[rows]).T
        variance = np.diag(covariance) - (gain * covariance[:, rows]).sum(axis=1)
        return gain @ errors, np.maximum(variance, 0.0) + self.noise(doubt)

    def _deviation_left(self, cells: Cells, doubt: Floats, tried: list[int]) -> float:
        _, variance = self.correction(cells, doubt, tried, np.zeros(len(tried)))
        return float(np.sqrt(variance).sum())


def fit_error_covariance(held_out: HeldOut) -> ErrorCovariance:
    """Maximise the posterior on held-out networks, each an independent block."""
    from scipy.optimize import minimize

    cells = held_out.cells
    blocks = [np.flatnonzero(cells.network == name) for name in np.unique(cells.network)]

    def loss(parameters: Floats) -> float:
        model = ErrorCovariance(parameters)
        value = 0.5 * float((((parameters - _PRIOR) / _PRIOR_SIGMA) ** 2).sum())
        for rows in blocks:
            value += _block_loss(model, cells[rows], held_out.doubt[rows], held_out.residuals[rows])
        return value

    bounds = [(low - 5, low + 5) for low in _PRIOR]
    found = minimize(loss, _PRIOR, method="L-BFGS-B", bounds=bounds, options={"maxiter": 20})
    return ErrorCovariance(np.asarray(found.x))


def _block_loss(model: ErrorCovariance, cells: Cells, doubt: Floats, errors: Floats) -> float:
    covariance = model.matrix(cells, doubt) + np.diag(model.noise(doubt) + 1e-8)
    _, log_determinant = np.linalg.slogdet(covariance)
    return 0.5 * float(errors @ np.linalg.solve(covariance, errors) + log_determinant)


def _positions(cells: Cells) -> Floats:
    """Where a workload lies among those of its network: logs of work and image size."""
    work = np.log(cells.batch * cells.image_px**2)
    return np.column_stack([work, np.log(cells.image_px), np.log(cells.seconds)])
