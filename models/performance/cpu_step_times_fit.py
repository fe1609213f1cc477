"""Fits step times of CPUs on measured rows, and tells how far off they are about rows held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from advisor.models.performance.cpu_step_times import CELL, NETWORK, ROW_SIGMA, CpuStepTimes
from advisor.models.performance.fitting import fitted, learnt
from advisor.models.performance.networks import Floats
from advisor.models.performance.observations import MeasuredStep, columns
from advisor.models.performance.posterior import Posterior


class HeldOut(NamedTuple):
    """Log seconds of rows that were held out, observed over predicted, and their predicted
    standard deviations, each (n,)."""

    residuals: Floats
    deviations: Floats


def fit_cpu_step_times(rows: Sequence[MeasuredStep], reference_score: float) -> CpuStepTimes:
    """Fit on all rows, and calibrate on what a fit without them tells of each."""
    quantiles = {
        name: tuple(np.round(np.sort(held.residuals / held.deviations), 3).tolist())
        for name, held in held_out(rows).items()
    }
    return CpuStepTimes(
        posterior=_posterior(rows),
        quantiles=quantiles,
        networks=frozenset(f"{r.cell.network}/{r.cell.step.conditions.task}" for r in rows),
        reference_score=reference_score,
    )


def held_out(rows: Sequence[MeasuredStep]) -> Mapping[str, HeldOut]:
    """Each row under the fit without its family of networks, and without its batch size of its
    network."""
    sizes = sorted({row.cell.step.batch_size for row in rows})

    def of_batch(row: MeasuredStep) -> str:
        # One batch size of each network at a time, another one for its neighbours in the list.
        at = sum(map(ord, row.cell.network)) + sizes.index(row.cell.step.batch_size)
        return str(at % len(sizes))

    return {NETWORK: _held_out(rows, lambda row: row.family), CELL: _held_out(rows, of_batch)}


def _held_out(rows: Sequence[MeasuredStep], group_of: Callable[[MeasuredStep], str]) -> HeldOut:
    groups = np.array([group_of(row) for row in rows])
    residuals, variances = np.empty(len(rows)), np.empty(len(rows))
    for group in sorted(set(groups)):
        out = groups == group
        posterior = _posterior([row for row, held in zip(rows, out, strict=True) if not held])
        cells, observed, _ = columns([row for row, held in zip(rows, out, strict=True) if held])
        result = posterior.predict(cells)
        residuals[out], variances[out] = observed - result.mean, result.variance
    return HeldOut(residuals, np.sqrt(variances + ROW_SIGMA**2))


def _posterior(rows: Sequence[MeasuredStep]) -> Posterior:
    cells, observed, sigma = columns(rows)
    return learnt(fitted(cells, observed, sigma), cells, observed, sigma)[0]
