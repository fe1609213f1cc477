"""Fits step times of CPUs on measured rows, and tells how far off they are about rows held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from advisor.infra.build.fitting.network_effects import fitted, learnt
from advisor.infra.build.fitting.observations import MeasuredStep, columns
from advisor.models.bayes import Floats, Rows
from advisor.models.bayes import held_out as held_out_values
from advisor.models.performance.cpu_step_times import CELL, NETWORK, ROW_SIGMA, CpuStepTimes
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
    def told_without(out: Rows) -> Floats:
        posterior = _posterior([row for row, gone in zip(rows, out, strict=True) if not gone])
        cells, observed, _ = columns([row for row, gone in zip(rows, out, strict=True) if gone])
        result = posterior.predict(cells)
        return np.column_stack([observed - result.mean, np.sqrt(result.variance + ROW_SIGMA**2)])

    return HeldOut(*held_out_values([group_of(row) for row in rows], told_without).T)


def _posterior(rows: Sequence[MeasuredStep]) -> Posterior:
    cells, observed, sigma = columns(rows)
    return learnt(fitted(cells, observed, sigma), cells, observed, sigma)[0]
