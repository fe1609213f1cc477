"""Maximum a posteriori fit of named effects to log seconds, by damped Gauss-Newton steps.

Rows further than three standard deviations off lose weight (as under a pseudo-Huber loss), so a
single wrong row does not bend the rest. Repeats of one cell share the weight of one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.datasheet.effects import PARTS, Prior, RowEffects, prior, row_effects
from models.performance.datasheet.records import RateRow
from models.performance.networks import Floats

# Scatter of repeats that differ in their host alone (median 3 % in lambda_tf), and a little more.
ROW_SIGMA = 0.05
_FAR = 3.0
_MOST_STEPS, _PLAIN_STEPS, _TOLERANCE = 40, 4, 1e-3


@dataclass(frozen=True, slots=True)
class Fitted:
    """Effects by name (`index` into `values`) with their posterior covariance."""

    index: dict[str, int]
    values: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class Design:
    """Rows as matrices: parts (3, rows, effects), offset (rows, effects), constants (rows, 3)."""

    parts: Floats
    offset: Floats
    constants: Floats

    def logs(self, values: Floats) -> tuple[Floats, Floats]:
        """Log milliseconds a sample of each row, and their derivatives (rows, effects)."""
        logs = np.einsum("kre,e->rk", self.parts, values) + self.constants
        highest = logs.max(axis=1, keepdims=True)
        powers = np.exp(logs - highest)
        total = powers.sum(axis=1, keepdims=True)
        shares = powers / total
        derivatives = np.einsum("rk,kre->re", shares, self.parts) + self.offset
        return (highest + np.log(total))[:, 0] + self.offset @ values, derivatives


def design(rows: Sequence[RateRow], index: dict[str, int]) -> Design:
    """Matrices of `rows`; raises KeyError for a row with an effect that `index` lacks."""
    parts = np.zeros((len(PARTS) - 1, len(rows), len(index)))
    offset = np.zeros((len(rows), len(index)))
    constants = np.zeros((len(rows), len(PARTS) - 1))
    for i, row in enumerate(rows):
        effects = row_effects(row)
        constants[i] = effects.constants
        for matrix, names in zip((*parts, offset), effects.names, strict=True):
            for name in names:
                matrix[i, index[name]] += 1
    return Design(parts, offset, constants)


def fit_effects(rows: Sequence[RateRow], also: Sequence[RateRow]) -> Fitted:
    """Fit on `rows`; effects that only `also` has stay at their priors."""
    index = effect_index((*rows, *also))
    priors = [prior(name) for name in index]
    matrices = design(rows, index)
    seconds = -np.log([row.samples_per_second for row in rows]) + np.log(1000)
    return _solve(matrices, seconds, _weights(rows), priors, index)


def effect_index(rows: Sequence[RateRow]) -> dict[str, int]:
    """Every effect of the rows with its place, in alphabetical order."""
    effects: list[RowEffects] = [row_effects(row) for row in rows]
    names = {name for effect in effects for part in effect.names for name in part}
    return {name: i for i, name in enumerate(sorted(names))}


def _weights(rows: Sequence[RateRow]) -> Floats:
    """Inverse variances: machines that measured the same cell share one row's weight."""
    cells = [(row.gpu_name, row.software.compiled, row.workload) for row in rows]
    repeats = Counter(cells)
    return 1 / (ROW_SIGMA**2 * np.array([repeats[cell] for cell in cells]))


def _solve(
    matrices: Design, target: Floats, weights: Floats, priors: list[Prior], index: dict[str, int]
) -> Fitted:
    means, sigmas = np.array(priors).T
    values, curvature = means.copy(), np.eye(len(means))
    for step in range(_MOST_STEPS):
        logs, derivatives = matrices.logs(values)
        misses = logs - target
        robust = 1 / np.sqrt(1 + (misses / ROW_SIGMA / _FAR) ** 2) if step >= _PLAIN_STEPS else 1.0
        weighted = derivatives * (weights * robust)[:, None]
        curvature = weighted.T @ derivatives + np.diag(sigmas**-2)
        change = np.linalg.solve(curvature, weighted.T @ misses + (values - means) / sigmas**2)
        values = values - change * min(1.0, 1 / np.abs(change).max(initial=1e-12))
        if step > _PLAIN_STEPS and np.abs(change).max() < _TOLERANCE:
            break
    return Fitted(index, values, np.asarray(np.linalg.inv(curvature), dtype=float))
