"""Fits step times on measured rows, with the networks' effects integrated out.

Rows of one network share its effects, so they are whitened together. This leaves a least-squares problem in
the parameters with Gaussian priors (`models.bayes`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.infra.build.fitting.likeliest import Search, kept, most_likely
from advisor.models.bayes import Floats, Gaussian, Parameters, student_weights
from advisor.models.performance.posterior import EFFECTS, Cell, Posterior, effect_groups, steps_of

_MOST_WEIGHT = 1.2
_SEARCH = Search(steps=40, close=1e-3, damping=1e-2, least_damping=1e-6, most_damping=1e4, more=4.0)
# Parameters that explain how a source measured; a prediction never names them.
OF_SOURCES = ("source/", "host/")
# For networks that only one source measured: the share of its offset that is attributed to the source.
_OF_THE_SOURCE = 0.5


class Fit(NamedTuple):
    """Parameters at the maximum, their covariance, and the rows' residuals, which still contain effects."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    residuals: Floats
    weights: Floats


def fitted(cells: Sequence[Cell], log_measured: Floats, sigma: Floats, *, start: Fit | None = None) -> Fit:
    """Fit on rows: log seconds (n,) and their standard deviations under a good model (n,)."""
    parameters = Parameters()
    steps = steps_of([cell.step for cell in cells], parameters)
    first = np.array([prior.mean for prior in parameters.priors])
    if start:
        first = parameters.values(start.names, start.mean)
    noise = NetworkNoise(cells, sigma)
    best = most_likely(parameters.priors, steps, log_measured, noise, first, _SEARCH)
    covariance = np.asarray(np.linalg.inv(best.precision), dtype=float)
    return Fit(parameters.names, best.theta, covariance, best.residuals, noise.weights)


class Block(NamedTuple):
    """Rows of one network, with the covariance that its effects cause."""

    network: str
    rows: np.ndarray[tuple[int], np.dtype[np.intp]]
    shared: Floats


def network_blocks(cells: Sequence[Cell]) -> list[Block]:
    """The rows of each network, and the covariance that its effects cause between them."""
    members: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        members.setdefault(cell.network, []).append(row)
    blocks = []
    for network, rows in members.items():
        groups = [effect_groups(cells[row].step.conditions) for row in rows]
        shared = np.zeros((len(rows), len(rows)))
        for kind in groups[0]:
            deviation = EFFECTS[kind]
            _, code = np.unique([g[kind] for g in groups], return_inverse=True)
            shared += deviation**2 * (code[:, None] == code[None])
        blocks.append(Block(network, np.array(rows, dtype=np.intp), shared))
    return blocks


class NetworkNoise:
    """Scatter of rows around their network's effects; `weights` (n,) say how much each row counts."""

    def __init__(self, cells: Sequence[Cell], sigma: Floats) -> None:
        self.blocks = network_blocks(cells)
        self.weights: Floats = np.ones(len(cells))
        self._sigma = sigma
        self._roots = self._made_roots()

    def whitened(self, columns: Floats) -> Floats:
        """The columns (n, m), transformed to unit covariance."""
        white = np.empty_like(columns)
        for block, root in zip(self.blocks, self._roots, strict=True):
            white[block.rows] = _solved(root, columns[block.rows])
        return white

    def learn(self, residuals: Floats) -> None:
        """Update the weights of rows from their distance to their network's effects."""
        explained = np.empty_like(residuals)
        for block, root in zip(self.blocks, self._roots, strict=True):
            white = _solved(root, residuals[block.rows])
            explained[block.rows] = block.shared @ _solved(root, white, transposed=True)
        self.weights = student_weights((residuals - explained) / self._sigma, _MOST_WEIGHT)
        self._roots = self._made_roots()

    def _made_roots(self) -> list[Floats]:
        noise = self._sigma**2 / self.weights
        tied = (block.shared + np.diag(noise[block.rows]) for block in self.blocks)
        return [np.asarray(np.linalg.cholesky(covariance), dtype=float) for covariance in tied]


def _solved(root: Floats, columns: Floats, *, transposed: bool = False) -> Floats:
    """Solve a triangular system: the columns divided by the root of their covariance."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(root, columns, trans=int(transposed), lower=True, check_finite=False))


def effects_of(
    cells: Sequence[Cell], residuals: Floats, sigma: Floats, weights: Floats
) -> dict[str, Gaussian]:
    """The posterior of each network's effects, given its residuals (n,)."""
    result = {}
    for block in network_blocks(cells):
        groups = [effect_groups(cells[row].step.conditions) for row in block.rows.tolist()]
        names = list(dict.fromkeys(name for group in groups for name in group.values()))
        member = np.array([[name in group.values() for name in names] for group in groups], float)
        prior = np.array([EFFECTS[name.partition("/")[0]] ** 2 for name in names])
        noise = sigma[block.rows] ** 2 / weights[block.rows]
        precision = np.diag(1 / prior) + member.T @ (member / noise[:, None])
        covariance = np.asarray(np.linalg.inv(precision), dtype=float)
        mean = covariance @ (member.T @ (residuals[block.rows] / noise))
        result[block.network] = Gaussian(tuple(names), mean, covariance)
    return result


def posterior_of(fit: Fit, effects: dict[str, Gaussian], *, with_sources: bool = False) -> Posterior:
    """The part of a fit that predictions need; parameters of sources only if `with_sources`."""
    known = Gaussian(fit.names, fit.mean, fit.covariance)
    if not with_sources:
        known = kept(known, lambda name: not name.startswith(OF_SOURCES))
    return Posterior(known.names, known.mean, known.covariance, effects)


def fitted_logs(fit: Fit, cells: Sequence[Cell], of_source: float = 1.0) -> Floats:
    """Fitted log seconds of cells without networks' effects, with `of_source` of each source's offset."""
    parameters = Parameters()
    steps = steps_of([cell.step for cell in cells], parameters)
    shares = [of_source if name.startswith("source/") else 1.0 for name in fit.names]
    return steps.log_seconds(parameters.values(fit.names, fit.mean * np.array(shares)))


def learnt(
    fit: Fit, cells: Sequence[Cell], log_measured: Floats, sigma: Floats, *, with_sources: bool = False
) -> tuple[Posterior, Floats]:
    """The posterior of a fit and of networks' effects given rows (n,), and the residuals (n,), which still
    contain effects. Without sources, half of a source's offset goes to its networks' effects."""
    residuals = log_measured - fitted_logs(fit, cells, 1.0 if with_sources else _OF_THE_SOURCE)
    noise = NetworkNoise(cells, sigma)
    for _ in range(2):
        noise.learn(residuals)
    effects = effects_of(cells, residuals, sigma, noise.weights)
    return posterior_of(fit, effects, with_sources=with_sources), residuals
