"""Errors of answers, by group: GPU, family, precision, task, source, and all together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from benchmarks.truth.asking import Answer

Floats = NDArray[np.float64]
BY = ("gpu", "family", "precision", "task", "source")
FIGURES = (
    "mape_percent",
    "median_percent",
    "p90_percent",
    "bias_percent",
    "lower_held_percent",
    "covered_percent",
    "half_width_percent",
)


class Scored(Struct, frozen=True):
    """One answered row: what it belongs to, what was measured, and what was told."""

    groups: Mapping[str, str]
    measured: float
    answer: Answer


def groups_of(rows: Sequence[Scored], alike: str) -> list[dict[str, Any]]:
    """Figures of each group, and of `all` (and each task), where groups by `alike` weigh the same.
    `gpu-bound` is the same of rows whose step is longer than launching its kernels.

    An error is that of the predicted over the measured rate; bias is the mean in logarithms."""
    if not rows:
        return []
    columns = _columns(rows)
    found = [_alike("all", "all", rows, alike)]
    cloud = [row for row in rows if row.groups["sold"] == "cloud"]
    headlines = {
        "cloud, PyTorch >= 2": [row for row in cloud if row.groups["age"] == "modern"],
        "cloud": cloud,
        "scripts": [row for row in rows if row.groups["protocol"] == "script"],
    }
    found += [_alike("headline", name, some, alike) for name, some in headlines.items() if some]
    bound = [row for row in rows if row.groups["bound"] == "GPU"]
    for task in sorted({row.groups["task"] for row in bound}):
        found.append(_alike("gpu-bound", task, [r for r in bound if r.groups["task"] == task], alike))
    if bound:
        found.append(_alike("gpu-bound", "all", bound, alike))
    for kind in BY:
        names = np.array([row.groups[kind] for row in rows])
        for name in sorted(set(names.tolist())):
            inside = names == name
            if kind == "task":
                found.append(_alike(kind, name, [r for r in rows if r.groups[kind] == name], alike))
            else:
                figures = _figures(columns[:, inside], np.ones(int(inside.sum())))
                found.append({"by": kind, "group": name, **figures})
    return found


def _alike(by: str, name: str, rows: Sequence[Scored], alike: str) -> dict[str, Any]:
    """Their figures, and the errors that were left if one constant of each group were known."""
    names, columns = np.array([row.groups[alike] for row in rows]), _columns(rows)
    weights = _equal_weights(names)
    log = np.log(columns[1] / columns[3])
    for group in np.unique(names):
        log[names == group] -= np.median(log[names == group])
    errors, shares = 100 * np.abs(np.expm1(log)), weights / weights.sum()
    floor = {
        "floor_mape_percent": round(float(shares @ errors), 1),
        "floor_median_percent": round(quantile(errors, shares, 0.5), 1),
    }
    return {"by": by, "group": name, **_figures(columns, weights), **floor}


def memory_groups(rows: Sequence[Scored]) -> list[dict[str, Any]]:
    """Figures of peaks: all (each network alike), and by task. A peak should lie below `upper`,
    so what `lower_held_percent` tells is how often it did."""
    if not rows:
        return []
    columns = _columns(rows)
    weights = _equal_weights([row.groups["network"] for row in rows])
    found = [{"by": "memory", "group": "all", **_figures(columns, weights, upper=True)}]
    tasks = np.array([row.groups["task"] for row in rows])
    for task in sorted(set(tasks.tolist())):
        inside = tasks == task
        figures = _figures(columns[:, inside], np.ones(int(inside.sum())), upper=True)
        found.append({"by": "memory", "group": task, **figures})
    return found


def _columns(rows: Sequence[Scored]) -> Floats:
    """(4, n): lower, median, upper, measured."""
    return np.array(
        [(r.answer.lower, r.answer.median, r.answer.upper, r.measured) for r in rows], dtype=float
    ).T


def _equal_weights(names: Sequence[str] | NDArray[np.str_]) -> Floats:
    _, indices, counts = np.unique(names, return_inverse=True, return_counts=True)
    weights: Floats = 1.0 / counts[indices]
    return weights


def _figures(columns: Floats, weights: Floats, *, upper: bool = False) -> dict[str, float | int]:
    low, median, high, measured = columns
    log = np.log(median / measured)
    errors = 100 * np.abs(np.expm1(log))
    held = high >= measured if upper else low <= measured
    shares = weights / weights.sum()
    width = np.log(high / low) / 2
    values = (
        float(shares @ errors),
        quantile(errors, shares, 0.5),
        quantile(errors, shares, 0.9),
        100 * float(np.expm1(shares @ log)),
        100 * float(shares @ held),
        100 * float(shares @ ((low <= measured) & (measured <= high))),
        100 * float(np.expm1(shares @ width)),
    )
    return {"n": len(errors), **dict(zip(FIGURES, (round(v, 1) for v in values), strict=True))}


def quantile(values: Floats, shares: Floats, level: float) -> float:
    """The weighted quantile: the middles of the shares are interpolated."""
    order = np.argsort(values)
    middles = np.cumsum(shares[order]) - shares[order] / 2
    return float(np.interp(level, middles, values[order]))
