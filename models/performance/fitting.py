"""Fits the posterior: robust maximum a posteriori, networks' effects integrated out.

Rows of one network share its effects, so they are whitened together; what remains is a least
squares problem in the parameters with Gaussian priors. Weights of a Student t keep wrong rows of
public sources from bending the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.models.performance.posterior import (
    EFFECTS,
    Cell,
    Effects,
    Posterior,
    effect_groups,
    log_seconds,
    log_seconds_and_slopes,
    steps_of,
)
from advisor.models.performance.step_parameters import Floats, Parameters

_DEGREES, _MOST_WEIGHT = 4.0, 1.2
_MOST_STEPS, _CLOSE, _LONGEST = 40, 1e-3, 1.0
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-6, 1e4
# Parameters that explain how a source measured; a prediction never names them.
OF_SOURCES = ("source/", "host/")


class Fit(NamedTuple):
    """Parameters at the maximum, their covariance, and residuals of the rows, effects left in."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    residuals: Floats
    weights: Floats


def fitted(
    cells: Sequence[Cell],
    log_measured: Floats,
    sigma: Floats,
    *,
    start: Fit | None = None,
    talk: bool = False,
) -> Fit:
    """Fit on rows: log seconds (n,) with their standard deviations about a good model (n,)."""
    parameters = Parameters()
    steps = steps_of([cell.step for cell in cells], parameters)
    names = parameters.names
    prior = np.array([p.mean for p in parameters.priors])
    spread = np.array([p.sigma for p in parameters.priors])
    theta = prior.copy()
    if start:
        theta = parameters.values(start.names, start.mean)
    blocks = network_blocks(cells)
    weights: Floats = np.ones(len(cells))
    hessian = np.diag(spread**-2.0)
    residuals = log_measured
    damping = _DAMPING
    for turn in range(_MOST_STEPS):
        mean, slopes = log_seconds_and_slopes(steps, theta)
        residuals = log_measured - mean
        white = _whitened(blocks, np.column_stack([residuals, slopes]), sigma, weights)
        gradient = white[:, 1:].T @ white[:, 0] - (theta - prior) / spread**2
        hessian = white[:, 1:].T @ white[:, 1:] + np.diag(spread**-2.0)
        before = _misfit(white[:, 0], theta - prior, spread)
        while True:
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            after = theta + np.clip(step, -_LONGEST, _LONGEST)
            rest = log_measured - log_seconds(steps, after)
            now = _misfit(_whitened(blocks, rest[:, None], sigma, weights)[:, 0], after - prior, spread)
            if now <= before or damping > _MOST_DAMPING:
                break
            damping *= 4
        damping = max(damping / 5, _LEAST_DAMPING)
        theta, residuals = after, rest
        explained = _explained(blocks, residuals, sigma, weights)
        left = (residuals - explained) / sigma
        weights = np.minimum((_DEGREES + 1) / (_DEGREES + left**2), _MOST_WEIGHT)
        if talk:
            sys.stderr.write(
                f"step {turn}: misfit {now:.0f}, scatter "
                f"{np.median(np.abs(residuals - explained)):.4f}, without networks' effects "
                f"{np.median(np.abs(residuals)):.4f}, damping {damping:.1g}\n"
            )
        if before - now < _CLOSE * before:
            break
    return Fit(names, theta, np.asarray(np.linalg.inv(hessian), dtype=float), residuals, weights)


def _misfit(white: Floats, moved: Floats, spread: Floats) -> float:
    return float((white**2).sum() + ((moved / spread) ** 2).sum())


class Block(NamedTuple):
    """Rows of one network, with the covariance that its effects give them."""

    network: str
    rows: np.ndarray[tuple[int], np.dtype[np.intp]]
    shared: Floats


def network_blocks(cells: Sequence[Cell]) -> list[Block]:
    """The rows of each network, and how its effects tie them together."""
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


def _whitened(blocks: Sequence[Block], columns: Floats, sigma: Floats, weights: Floats) -> Floats:
    """The columns (n, m) with unit covariance."""
    white = np.empty_like(columns)
    for block in blocks:
        white[block.rows] = np.linalg.solve(_root(block, sigma, weights), columns[block.rows])
    return white


def _explained(blocks: Sequence[Block], residuals: Floats, sigma: Floats, weights: Floats) -> Floats:
    """What networks' effects explain of the residuals."""
    explained = np.empty_like(residuals)
    for block in blocks:
        root = _root(block, sigma, weights)
        white = np.linalg.solve(root, residuals[block.rows])
        explained[block.rows] = block.shared @ np.linalg.solve(root.T, white)
    return explained


def _root(block: Block, sigma: Floats, weights: Floats) -> Floats:
    rows = block.rows
    noise = np.diag(sigma[rows] ** 2 / weights[rows])
    return np.asarray(np.linalg.cholesky(block.shared + noise), dtype=float)


def robust_weights(cells: Sequence[Cell], residuals: Floats, sigma: Floats) -> Floats:
    """How much each row counts, by how far it lies off what its network's effects explain."""
    blocks = network_blocks(cells)
    weights: Floats = np.ones(len(cells))
    for _ in range(2):
        left = (residuals - _explained(blocks, residuals, sigma, weights)) / sigma
        weights = np.minimum((_DEGREES + 1) / (_DEGREES + left**2), _MOST_WEIGHT)
    return weights


def effects_of(
    cells: Sequence[Cell], residuals: Floats, sigma: Floats, weights: Floats
) -> dict[str, Effects]:
    """What each network's residuals (n,) tell of its effects."""
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
        result[block.network] = Effects(tuple(names), mean, covariance)
    return result


def posterior_of(fit: Fit, effects: dict[str, Effects]) -> Posterior:
    """What predictions need of a fit: without what belongs to sources alone."""
    kept = [place for place, name in enumerate(fit.names) if not name.startswith(OF_SOURCES)]
    return Posterior(
        tuple(fit.names[place] for place in kept), fit.mean[kept], fit.covariance[np.ix_(kept, kept)], effects
    )


def fitted_logs(fit: Fit, cells: Sequence[Cell]) -> Floats:
    """Log seconds of cells by a fit, networks' effects left out."""
    parameters = Parameters()
    steps = steps_of([cell.step for cell in cells], parameters)
    return log_seconds(steps, parameters.values(fit.names, fit.mean))


def learnt(fit: Fit, cells: Sequence[Cell], log_measured: Floats, sigma: Floats) -> tuple[Posterior, Floats]:
    """The posterior of a fit with what rows (n,) tell of networks' effects, and their residuals
    (n,), effects left in."""
    residuals = log_measured - fitted_logs(fit, cells)
    weights = robust_weights(cells, residuals, sigma)
    return posterior_of(fit, effects_of(cells, residuals, sigma, weights)), residuals
