"""Rates over vCPUs or threads, completed from three trials.

Both forms say in logarithms what another doubling brings: the local slope `d log R / d log n`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.networks import Floats

# One more doubling brings 0.92 of what the last one did (MODEL.md, eight threads from four).
USUAL_DAMPING = 0.92
# Repeats of a rate do not agree better than this, so that one lucky pair does not count alone.
_LEAST_ERROR = 0.01


def doubling_slope(rates: Floats, errors: Floats) -> float:
    """Log gain of the next doubling, undamped, from rates (3,) at n, 2n and 4n.

    A pipeline never scales better the more it has, so a last gain above the first one is noise:
    then a straight line through all three, weighed by relative standard `errors` (3,).
    """
    logs = np.log(rates)
    first, last = np.diff(logs)
    if last <= first:
        return float(last)
    weights = 1 / np.maximum(np.nan_to_num(errors), _LEAST_ERROR)
    return float(np.polyfit([0, 1, 2], logs, 1, w=weights)[0])


def fit_damping(slopes: Floats, gains: Floats) -> float:
    """The factor d that makes |gain - d slope| least on curves (n,) of other workloads."""
    telling = np.abs(slopes) > 1e-9
    if not telling.any():
        return USUAL_DAMPING
    ratios, weights = gains[telling] / slopes[telling], np.abs(slopes[telling])
    order = np.argsort(ratios)
    passed = np.cumsum(weights[order])
    return float(ratios[order][np.searchsorted(passed, passed[-1] / 2)])


def next_doubling(rates: Floats, errors: Floats, damping: float) -> float:
    """The rate at 8n from rates (3,) at n, 2n, 4n and their relative standard errors (3,)."""
    return float(rates[2] * np.exp(damping * doubling_slope(rates, errors)))


@dataclass(frozen=True, slots=True, kw_only=True)
class VcpuCurve:
    """Rates (n,) of a workload at rising `vcpus` (n,); what nobody measured is nan."""

    workload: str
    vcpus: Floats
    rates: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class VcpuRamp:
    """A ramp up to what the rest of the machine allows: `R(n) = min(R_1 exp(g(n)), R_max)`.

    g(n) = slope L + bend L^2 with L = log(n / n_1): a power law whose exponent falls. Both were
    learnt on other workloads; the third trial moves the slope. `bent` in 0..1 is how much of the
    bend is believed against a plain power law through the third trial. That trial is the largest
    n at which the ramp is still below `reach` of the highest rate.
    """

    slope: float
    bend: float
    bent: float
    reach: float

    def third_trial(self, curve: VcpuCurve) -> int:
        """Which vCPU count to try after the smallest and the largest, as an index."""
        below = curve.rates[0] * np.exp(self._ramp(curve)) < self.reach * curve.rates[-1]
        inner = [i for i in range(1, len(below) - 1) if below[i]]
        return max(inner, default=1)

    def predict(self, curve: VcpuCurve, third: int) -> Floats:
        """Rates (n,) at all vCPUs from the first, the last and the `third` alone."""
        ramp, logs = self._ramp(curve), np.log(curve.vcpus / curve.vcpus[0])
        measured = np.log(curve.rates[third] / curve.rates[0])
        moved = ramp + (measured - ramp[third]) * logs / logs[third]
        power = measured * logs / logs[third]
        found = self.bent * moved + (1 - self.bent) * power
        if curve.rates[third] >= AT_THE_TOP * curve.rates[-1]:
            # The third trial met the cap, so the ramp is steeper than it says.
            found = np.maximum(found, ramp)
        rates: Floats = np.minimum(curve.rates[0] * np.exp(found), curve.rates[-1])
        return rates

    def _ramp(self, curve: VcpuCurve) -> Floats:
        logs = np.log(curve.vcpus / curve.vcpus[0])
        # A parabola turns down at last; a ramp does not.
        turn = self.slope / (-2 * self.bend) if self.bend < 0 else np.inf
        logs = np.minimum(logs, turn)
        ramp: Floats = self.slope * logs + self.bend * logs**2
        return ramp


# A rate within 3 % of the highest counts as capped: the curves are known to two digits.
AT_THE_TOP = 0.97
_BEND_RIDGE = 0.5
# A ramp that nothing is known of: nearly linear.
_USUAL_SLOPE = 0.9
_CHOICES = tuple((bent, reach) for bent in (0.5, 1.0, 0.0) for reach in (0.85, AT_THE_TOP))


def ramp_errors(ramp: VcpuRamp, curve: VcpuCurve) -> Floats:
    """|predicted / true - 1| (n - 3,) of a fully measured curve at what was not tried."""
    third = ramp.third_trial(curve)
    errors = np.abs(ramp.predict(curve, third) / curve.rates - 1)
    return np.delete(errors, [0, third, len(errors) - 1])


def fit_ramp(curves: Sequence[VcpuCurve]) -> VcpuRamp:
    """Slope and bend from fully measured curves of other workloads, each workload once.

    `bent` and `reach` are those with the least error when each workload is left out in turn.
    """
    curves = [curve for curve in curves if len(curve.vcpus) > 3]
    slopes = {name: _slopes(curves, name) for name in sorted({c.workload for c in curves})}
    best, least = _CHOICES[0], np.inf
    for choice in _CHOICES if len(slopes) > 2 else ():
        error = _left_out_error(curves, slopes, *choice)
        if error < least:
            best, least = choice, error
    return _ramp(slopes, *best)


def _left_out_error(
    curves: Sequence[VcpuCurve], slopes: Mapping[str, Floats], bent: float, reach: float
) -> float:
    errors = []
    for name in slopes:
        ramp = _ramp({other: part for other, part in slopes.items() if other != name}, bent, reach)
        mine = [ramp_errors(ramp, curve) for curve in curves if curve.workload == name]
        errors.append(np.concatenate(mine).mean())
    return float(np.mean(errors))


def _slopes(curves: Sequence[VcpuCurve], workload: str) -> Floats:
    """(m, 2): log n and local slope between neighbours of the workload below its cap, medians."""
    found: dict[float, list[float]] = {}
    for curve in (curve for curve in curves if curve.workload == workload):
        on_ramp = curve.rates < AT_THE_TOP * curve.rates[-1]
        logs, rates = np.log(curve.vcpus / curve.vcpus[0]), np.log(curve.rates)
        for i in np.flatnonzero(on_ramp[:-1] & on_ramp[1:]):
            slope = (rates[i + 1] - rates[i]) / (logs[i + 1] - logs[i])
            found.setdefault(float(logs[i] + logs[i + 1]) / 2, []).append(float(slope))
    rows = [(at, float(np.median(values))) for at, values in sorted(found.items())]
    return np.array(rows).reshape(-1, 2)


def _ramp(slopes: Mapping[str, Floats], bent: float, reach: float) -> VcpuRamp:
    """`d g / d L = slope + 2 bend L` by least squares; the bend is held near zero."""
    rows = np.concatenate([*slopes.values(), np.empty((0, 2))])
    if not len(rows):
        return VcpuRamp(slope=_USUAL_SLOPE, bend=0.0, bent=bent, reach=reach)
    design = np.column_stack([np.ones(len(rows)), rows[:, 0]])
    ridge = np.diag([1e-9, _BEND_RIDGE])
    slope, twice_bend = np.linalg.solve(design.T @ design + ridge, design.T @ rows[:, 1])
    return VcpuRamp(slope=float(slope), bend=float(twice_bend) / 2, bent=bent, reach=reach)
