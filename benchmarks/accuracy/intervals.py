"""Suite `intervals`: central 90 % intervals of the transfers of `cross_gpu`.

Calibrated on networks held out inside of the training side; counted on the scored network, that
neither the prediction nor its calibration has seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.figures import NothingToScore, SuiteResult, figures
from benchmarks.accuracy.transfer_runs import Run, joined_rows, transfer_runs
from models.performance.networks import Floats

# `lower` and `upper` at this confidence each enclose the central 90 %.
CONFIDENCE = 0.95


def run(train: Path, score: Path) -> SuiteResult:
    """Coverage overall and by network, and widths."""
    done = transfer_runs(train, score, profiled=True)
    runs = tuple(one for one in done.runs if one.held_out is not None)
    if not runs:
        raise NothingToScore("no run has held-out networks to calibrate on")
    networks = [one.network for one in runs for _ in one.true_seconds]
    predicted, true, _ = joined_rows(runs, [np.exp(one.answer.log_seconds) for one in runs])
    return SuiteResult(
        suite="intervals",
        main=figures("zero_shot", predicted, true, networks),
        coverage=coverage(runs, [_normalised(one) for one in runs], networks),
        extra={
            "baseline_coverage": {
                "row_wise_conformal": coverage(runs, [_row_wise(one) for one in runs], networks)
            }
        },
        skipped=done.skipped,
    )


def coverage(runs: tuple[Run, ...], widths: list[Floats], networks: list[str]) -> dict[str, Any]:
    """Share of rows inside +-width of the log prediction, in percent; and the widths."""
    errors = np.concatenate([np.log(one.true_seconds) - one.answer.log_seconds for one in runs])
    width = np.concatenate(widths)
    inside = np.abs(errors) <= width
    labels = np.asarray(networks)
    shares = {str(n): round(100 * float(inside[labels == n].mean()), 1) for n in np.unique(labels)}
    worst = min(shares, key=lambda name: shares[name])
    return {
        "central_percent": 90,
        "covered_percent": round(100 * float(inside.mean()), 1),
        "worst_network": worst,
        "worst_network_percent": shares[worst],
        "median_half_width_percent": round(100 * float(np.median(np.sinh(width))), 1),
        "by_network": shares,
    }


def _normalised(run: Run) -> Floats:
    if run.held_out is None:
        raise ValueError("no held-out rows")
    return run.held_out.half_widths(run.answer.doubt, CONFIDENCE)


def _row_wise(run: Run) -> Floats:
    """Plain split conformal: one width for all rows, every held-out row counts alike."""
    if run.held_out is None:
        raise ValueError("no held-out rows")
    width = float(np.quantile(np.abs(run.held_out.residuals), 2 * CONFIDENCE - 1))
    return np.full(len(run.cells), width)
