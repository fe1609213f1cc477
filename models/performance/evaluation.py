"""Errors in percent from log residuals, computed in one place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from advisor.models.bayes import Floats


def percent_errors(log_residuals: Floats) -> Floats:
    """|predicted / observed - 1| in percent for log(observed / predicted)."""
    errors: Floats = 100 * np.abs(np.expm1(-np.asarray(log_residuals, dtype=float)))
    return errors


def median_percent(log_residuals: Floats) -> float:
    """Median absolute percentage error."""
    return float(np.median(percent_errors(log_residuals)))


def mean_percent(log_residuals: Floats) -> float:
    """Mean absolute percentage error."""
    return float(np.mean(percent_errors(log_residuals)))


def p90_percent(log_residuals: Floats) -> float:
    """The absolute percentage error that nine rows in ten stay below."""
    return float(np.quantile(percent_errors(log_residuals), 0.9))


def summary(groups: Mapping[str, Floats]) -> dict[str, float]:
    """Mean and median percentage error with every group (GPU, family) counting alike."""
    means = [mean_percent(values) for values in groups.values()]
    rows = np.concatenate(list(groups.values()))
    return {
        "groups": len(means),
        "rows": len(rows),
        "mean_percent": round(float(np.mean(means)), 1),
        "median_percent": round(median_percent(rows), 1),
        "worst_group_percent": round(max(means), 1),
    }


def summary_of(log_residuals: Floats) -> dict[str, float]:
    """How many rows there are, and their mean, median and ninth decile of errors in per cent."""
    return {
        "rows": len(log_residuals),
        "mean_percent": round(mean_percent(log_residuals), 1),
        "median_percent": round(median_percent(log_residuals), 1),
        "p90_percent": round(p90_percent(log_residuals), 1),
    }
