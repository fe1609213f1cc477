"""The bundled rows: GPUs, architectures and families of networks left out of the published
rows (about two minutes), and five-fold held-out trials of the bundled sweep.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from advisor.operations.fitting import (
    BUNDLED_MEASUREMENTS,
    PUBLISHED_FOLDER,
    fit_user_model,
    measurements_from,
)
from benchmarks.accuracy.figures import SCHEMA
from models.performance.calibration import held_out
from models.performance.evaluation import mean_percent, median_percent, p90_percent, summary
from models.performance.networks import bundled_networks
from models.performance.published import read_published


def gpu_errors() -> dict[str, Any]:
    """Errors by distance, and by what was left out, in percent."""
    rows = read_published(PUBLISHED_FOLDER / "published.csv", PUBLISHED_FOLDER / "gpus.csv")
    residuals = held_out(rows, bundled_networks())
    return {
        kind: {
            **summary(groups),
            "by_group": {n: round(mean_percent(v), 1) for n, v in groups.items()}
            if kind != "cell"
            else {},
        }
        for kind, groups in residuals.items()
    }


def sweep_errors() -> dict[str, Any]:
    """Errors of held-out trials of the bundled sweep, in percent."""
    result = fit_user_model(measurements_from(BUNDLED_MEASUREMENTS))
    residuals = result.held_out_residuals
    return {
        "fitted": result.fitted,
        "left_out": dict(result.left_out),
        "median_percent": round(median_percent(residuals), 2),
        "mean_percent": round(mean_percent(residuals), 2),
        "p90_percent": round(p90_percent(residuals), 2),
    }


def bundled_errors() -> dict[str, Any]:
    """Both, as one document."""
    start = time.perf_counter()
    sys.stderr.write("leaving out GPUs, architectures and families of networks ...\n")
    document: dict[str, Any] = {"schema": SCHEMA, "accelerator": gpu_errors()}
    sys.stderr.write("five folds of the bundled sweep ...\n")
    document["sweep"] = sweep_errors()
    document["seconds"] = round(time.perf_counter() - start, 1)
    return document
