"""Errors of answers about serving, by quantity and group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.truth.scores import quantile

# `step` is the figure that every row has: the time of a token where it was measured, else the rate.
QUANTITIES = ("step", "tpot", "ttft", "output_rate")
BY = ("kind", "joined", "gpus", "gpu", "model", "engine", "precision", "source", "in_flight", "experts")


class Bounds(NamedTuple):
    """One answer, 0 < lower <= median <= upper."""

    lower: float
    median: float
    upper: float


class RowAnswer(NamedTuple):
    """What was answered for a row; None where its kind has no such figure."""

    tpot_seconds: Bounds | None = None
    ttft_seconds: Bounds | None = None
    output_tokens_per_second: Bounds | None = None


class Scored(NamedTuple):
    """One quantity of one row: what it belongs to, what was measured and what was answered.

    `is_rate`: more of it is better, so that `lower` is the bound that must hold; else `upper`."""

    groups: Mapping[str, str]
    quantity: str
    measured: float
    answer: Bounds
    is_rate: bool

    @property
    def held(self) -> bool:
        """Whether what was measured is no worse than the bound."""
        if self.is_rate:
            return self.answer.lower <= self.measured
        return self.answer.upper >= self.measured


def figures(rows: Sequence[Scored]) -> dict[str, float | int]:
    """Errors in per cent of what was measured; `bias` is the mean in logarithms, `half_width_log`
    half the log of the upper over the lower bound."""
    ratios = np.array([row.answer.median / row.measured for row in rows])
    errors = 100 * np.abs(ratios - 1)
    shares = np.full(len(rows), 1 / len(rows))
    widths = [math.log(row.answer.upper / row.answer.lower) / 2 for row in rows]
    return {
        "n": len(rows),
        "mean_percent": round(float(errors.mean()), 1),
        "median_percent": round(quantile(errors, shares, 0.5), 1),
        "p90_percent": round(quantile(errors, shares, 0.9), 1),
        "bias_percent": round(100 * float(np.expm1(np.log(ratios).mean())), 1),
        "held_percent": round(100 * float(np.mean([row.held for row in rows])), 1),
        "half_width_log": round(float(np.mean(widths)), 3),
    }


def tables(rows: Sequence[Scored]) -> list[dict[str, Any]]:
    """Figures of each quantity: of all rows, and by each kind of group."""
    found: list[dict[str, Any]] = []
    for quantity in QUANTITIES:
        same = [row for row in rows if row.quantity == quantity]
        if not same:
            continue
        found.append({"quantity": quantity, "by": "all", "group": "all", **figures(same)})
        for kind in BY:
            found += [
                {"quantity": quantity, "by": kind, "group": name, **figures(members)}
                for name, members in grouped(same, lambda row, kind=kind: row.groups[kind]).items()
            ]
    return found


def grouped(rows: Iterable[Scored], key: Callable[[Scored], str]) -> dict[str, list[Scored]]:
    """Rows by key, in the keys' order."""
    found: dict[str, list[Scored]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))
