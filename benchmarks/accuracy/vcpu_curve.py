"""Suite `vcpu_curve`: Presto's 8 threads from 1, 2, 4, and Synergy's curves from 3 trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.accuracy import vcpu_rows
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from benchmarks.accuracy.vcpu_rows import Threads
from models.performance.curves.scaling import (
    VcpuCurve,
    VcpuRamp,
    doubling_slope,
    fit_damping,
    fit_ramp,
    next_doubling,
)
from models.performance.networks import Floats
from models.performance.stages import useful_cores

# (workload, predicted, true) of one scored point.
Point = tuple[str, float, float]
_GAINS = 1.05


def run(train: Path, score: Path) -> SuiteResult:
    """A file that is missing on either side skips its half."""
    notes: list[str] = []
    presto, presto_baselines = _part(_presto, train, score, notes)
    synergy, synergy_baselines = _part(_synergy, train, score, notes)
    points = [*presto.get("Presto", []), *synergy.get("Synergy", [])]
    if not points:
        raise NothingToScore("; ".join(notes) or "no curve with enough points")
    variants = {**presto, **synergy}
    baselines = {**presto_baselines, **synergy_baselines}
    return SuiteResult(
        suite="vcpu_curve",
        main=_figures("Presto and Synergy", points),
        variants=[_figures(name, found) for name, found in variants.items() if found],
        baselines=[_figures(name, found) for name, found in baselines.items() if found],
        skipped=notes,
    )


def _part(
    scored: Callable[[Path, Path, list[str]], tuple[dict[str, list[Point]], ...]],
    train: Path,
    score: Path,
    notes: list[str],
) -> tuple[dict[str, list[Point]], ...]:
    try:
        return scored(train, score, notes)
    except NothingToScore as reason:
        notes.append(str(reason))
        return {}, {}


def _presto(
    train: Path, score: Path, notes: list[str]
) -> tuple[dict[str, list[Point]], dict[str, list[Point]]]:
    curves, fitted = vcpu_rows.presto(score, notes), vcpu_rows.presto(train, [])
    found: dict[str, list[Point]] = {"Presto": [], "Presto, one curve left out": []}
    simple: dict[str, list[Point]] = {f"Presto: {name}": [] for name in _THREAD_FORMS}
    for curve in curves:
        others = [o for o in fitted if o.curve != curve.curve]
        strangers = [o for o in others if o.workload != curve.workload]
        for name, known in zip(found, (strangers, others), strict=True):
            rate = next_doubling(curve.rates, curve.errors, _damping(known))
            found[name].append((curve.workload, rate, curve.at_eight))
        for name, form in _THREAD_FORMS.items():
            simple[f"Presto: {name}"].append((curve.workload, form(curve.rates), curve.at_eight))
    return found, simple


def _damping(curves: list[Threads]) -> float:
    slopes = np.array([doubling_slope(curve.rates, curve.errors) for curve in curves])
    gains = np.array([np.log(curve.at_eight / curve.rates[2]) for curve in curves])
    return fit_damping(slopes, gains)


def _law_at_eight(rates: Floats, *, coherent: bool) -> float:
    """The product's scaling law fitted to 1, 2 and 4 threads; Amdahl's without coherence."""
    from scipy.optimize import least_squares

    threads = np.array([1.0, 2.0, 4.0])

    def law(values: Floats, at: Floats) -> Floats:
        return np.exp(values[0]) * useful_cores(
            at, float(np.exp(values[1])), float(np.exp(values[2])) if coherent else 0.0
        )

    prior = np.array([np.log(0.05), np.log(3e-3)])

    def residuals(values: Floats) -> Floats:
        data = np.log(law(values, threads) / rates) / 0.1
        return np.concatenate([data, values[1:] - prior])

    start = np.array([np.log(rates[0]), *prior])
    found = least_squares(residuals, start, bounds=([-50, -20, -20], [50, 0, 0])).x
    return float(law(found, np.array([8.0]))[0])


_THREAD_FORMS: dict[str, Callable[[Floats], float]] = {
    "linear": lambda rates: float(8 * rates[0]),
    "hard minimum": lambda rates: float(min(8 * rates[0], rates.max())),
    "regularised USL": lambda rates: _law_at_eight(rates, coherent=True),
    "Amdahl": lambda rates: _law_at_eight(rates, coherent=False),
    "y4 (y4/y2)^0.92": lambda rates: float(rates[2] * (rates[2] / rates[1]) ** 0.92),
}


def _synergy(
    train: Path, score: Path, notes: list[str]
) -> tuple[dict[str, list[Point]], dict[str, list[Point]]]:
    curves, fitted = vcpu_rows.synergy(score, notes), vcpu_rows.synergy(train, [])
    found: dict[str, list[Point]] = {"Synergy": [], "Synergy, workloads without gain too": []}
    simple: dict[str, list[Point]] = {"Synergy: hard minimum": [], "Synergy: linear": []}
    ramps = {name: _ramp_without(fitted, name) for name in {curve.workload for curve in curves}}
    for curve in curves:
        points, minimum, linear = _curve_points(ramps[curve.workload], curve)
        found["Synergy, workloads without gain too"].extend(points)
        if curve.rates[-1] > _GAINS * curve.rates[0]:
            found["Synergy"].extend(points)
            simple["Synergy: hard minimum"].extend(minimum)
            simple["Synergy: linear"].extend(linear)
    return found, simple


def _ramp_without(curves: list[VcpuCurve], workload: str) -> VcpuRamp:
    return fit_ramp([curve for curve in curves if curve.workload != workload])


def _curve_points(ramp: VcpuRamp, curve: VcpuCurve) -> tuple[list[Point], ...]:
    """Scored points of the ramp (three trials), of the hard minimum and of the line (two)."""
    last, name = len(curve.vcpus) - 1, curve.workload
    tried = np.full(last + 1, np.nan)
    tried[[0, last]] = curve.rates[[0, last]]
    third = ramp.third_trial(VcpuCurve(workload=name, vcpus=curve.vcpus, rates=tried))
    tried[third] = curve.rates[third]
    ours = ramp.predict(VcpuCurve(workload=name, vcpus=curve.vcpus, rates=tried), third)
    line = curve.rates[0] * curve.vcpus / curve.vcpus[0]
    return (
        [(name, ours[i], curve.rates[i]) for i in range(1, last) if i != third],
        [(name, min(line[i], curve.rates[-1]), curve.rates[i]) for i in range(1, last)],
        [(name, line[i], curve.rates[i]) for i in range(1, last)],
    )


def _figures(name: str, points: list[Point]) -> Figures:
    workloads, predicted, true = zip(*points, strict=True)
    return figures(name, predicted, true, workloads)
