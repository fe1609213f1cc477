"""What others do for a GPU never measured: scale a known one, ridge regression, one roofline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from models.performance.datasheet.records import RateRow
from models.performance.networks import Floats
from models.performance.step_work import Stack, unit_of

_RIDGE = 0.3


def peak(row: RateRow) -> tuple[float, float]:
    """TFLOPS of the unit that the row's precision runs on, and GB/s."""
    assert row.gpu is not None
    unit = unit_of("conv_3x3", row.precision, row.gpu, Stack(tf32=row.software.tf32))
    return unit.tflops, row.gpu.memory_gb_per_second


def nearest(rest: Sequence[RateRow], own: Sequence[RateRow]) -> Floats:
    """The GPU with the nearest peaks, its rate scaled by the mean ratio of peak and bandwidth."""
    return _each(rest, own, _nearest)


def ridge(rest: Sequence[RateRow], own: Sequence[RateRow]) -> Floats:
    """For each network, task and precision: log rate over log peak, log bandwidth, compiled."""
    return _each(rest, own, _ridge)


def roofline(rest: Sequence[RateRow], own: Sequence[RateRow]) -> Floats:
    """For each network, task and precision: T = a/P + b/W + d, all >= 0, on relative errors."""
    return _each(rest, own, _roofline)


def _each(
    rest: Sequence[RateRow],
    own: Sequence[RateRow],
    predict: Callable[[list[RateRow], RateRow], float],
) -> Floats:
    known: dict[str, list[RateRow]] = {}
    for row in rest:
        if row.gpu is not None:
            known.setdefault(row.workload, []).append(row)
    return np.array([predict(_alike(known[row.workload], row), row) for row in own])


def _alike(rows: list[RateRow], row: RateRow) -> list[RateRow]:
    """Rows of the same kind of software, where three GPUs remain."""
    same = [one for one in rows if one.software.compiled == row.software.compiled]
    return same if len({one.gpu_name for one in same}) >= 3 else rows


def _nearest(rows: list[RateRow], row: RateRow) -> float:
    here = np.log(peak(row))
    ratios = [here - np.log(peak(one)) for one in rows]
    best = int(np.argmin([np.abs(ratio).sum() for ratio in ratios]))
    return float(rows[best].samples_per_second * np.exp(ratios[best].mean()))


def _weights(rows: list[RateRow]) -> Floats:
    names = [row.gpu_name for row in rows]
    return np.array([1 / np.sqrt(names.count(name)) for name in names])


def _features(row: RateRow) -> Floats:
    return np.array([1.0, *np.log(peak(row)), float(row.software.compiled)])


def _ridge(rows: list[RateRow], row: RateRow) -> float:
    inputs = np.array([_features(one) for one in rows])
    middle = np.array([0.0, *inputs[:, 1:].mean(axis=0)])
    weights = _weights(rows)[:, None]
    scaled = (inputs - middle) * weights
    target = np.log([one.samples_per_second for one in rows]) * weights[:, 0]
    penalty = np.diag([0.0, _RIDGE, _RIDGE, _RIDGE])
    slopes = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ target)
    return float(np.exp((_features(row) - middle) @ slopes))


def _roofline(rows: list[RateRow], row: RateRow) -> float:
    from scipy.optimize import nnls

    def parts(one: RateRow) -> Floats:
        tflops, bandwidth = peak(one)
        return np.array([100 / tflops, 1000 / bandwidth, 1.0])

    rates = np.array([one.samples_per_second for one in rows])
    weights = _weights(rows)
    amounts, _ = nnls(np.array([parts(one) for one in rows]) * (rates * weights)[:, None], weights)
    return float(1 / max(parts(row) @ amounts, 1e-12))


BASELINES = {
    "nearest GPU, scaled by its peaks": nearest,
    "ridge regression": ridge,
    "one roofline a network": roofline,
}
