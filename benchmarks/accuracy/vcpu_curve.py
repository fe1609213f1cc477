"""Suite `vcpu_curve`: Presto's 8 threads from 1, 2, 4, and Synergy's curves from 3 trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.accuracy import vcpu_rows
from benchmarks.accuracy.curves.scaling import (
    VcpuCurve,
    VcpuRamp,
    doubling_slope,
    fit_damping,
    fit_ramp,
    next_doubling,
)
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from benchmarks.accuracy.vcpu_rows import Threads
from benchmarks.accuracy.vcpu_stages import joined_stages, law_at_eight
from models.performance.networks import Floats

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


_THREAD_FORMS: dict[str, Callable[[Floats], float]] = {
    "linear": lambda rates: float(8 * rates[0]),
    "hard minimum": lambda rates: float(min(8 * rates[0], rates.max())),
    "regularised USL (the product's law)": lambda rates: law_at_eight(rates, coherent=True),
    "Amdahl": lambda rates: law_at_eight(rates, coherent=False),
    "y4 (y4/y2)^0.92": lambda rates: float(rates[2] * (rates[2] / rates[1]) ** 0.92),
}


# The first from the same three trials as ours, the others from the first and the last.
_CURVE_FORMS = ("the product's stages", "hard minimum", "linear")


def _synergy(
    train: Path, score: Path, notes: list[str]
) -> tuple[dict[str, list[Point]], dict[str, list[Point]]]:
    curves, fitted = vcpu_rows.synergy(score, notes), vcpu_rows.synergy(train, [])
    found: dict[str, list[Point]] = {"Synergy": [], "Synergy, workloads without gain too": []}
    simple: dict[str, list[Point]] = {f"Synergy: {name}": [] for name in _CURVE_FORMS}
    ramps = {name: _ramp_without(fitted, name) for name in {curve.workload for curve in curves}}
    for curve in curves:
        points, *others = _curve_points(ramps[curve.workload], curve)
        found["Synergy, workloads without gain too"].extend(points)
        if curve.rates[-1] > _GAINS * curve.rates[0]:
            found["Synergy"].extend(points)
            for name, baseline in zip(_CURVE_FORMS, others, strict=True):
                simple[f"Synergy: {name}"].extend(baseline)
    return found, simple


def _ramp_without(curves: list[VcpuCurve], workload: str) -> VcpuRamp:
    return fit_ramp([curve for curve in curves if curve.workload != workload])


def _curve_points(ramp: VcpuRamp, curve: VcpuCurve) -> tuple[list[Point], ...]:
    """Scored points of the ramp, then of `_CURVE_FORMS`."""
    last, name = len(curve.vcpus) - 1, curve.workload
    tried = np.full(last + 1, np.nan)
    tried[[0, last]] = curve.rates[[0, last]]
    third = ramp.third_trial(VcpuCurve(workload=name, vcpus=curve.vcpus, rates=tried))
    tried[third] = curve.rates[third]
    ours = ramp.predict(VcpuCurve(workload=name, vcpus=curve.vcpus, rates=tried), third)
    line = curve.rates[0] * curve.vcpus / curve.vcpus[0]
    stages = joined_stages(curve.vcpus, tried)
    left = [i for i in range(1, last) if i != third]
    return (
        [(name, ours[i], curve.rates[i]) for i in left],
        [(name, stages[i], curve.rates[i]) for i in left],
        [(name, min(line[i], curve.rates[-1]), curve.rates[i]) for i in range(1, last)],
        [(name, line[i], curve.rates[i]) for i in range(1, last)],
    )


def _figures(name: str, points: list[Point]) -> Figures:
    workloads, predicted, true = zip(*points, strict=True)
    return figures(name, predicted, true, workloads)
