"""Thread curves from their first thread, and CPUs whose second threads are switched off.

The yield was read from PassMark's marks; integer division and servers with one thread a core had
no part in it, so both try it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.accuracy.figures import Figures, figures
from benchmarks.vcpu_truth.predicting import host_rates, some_threads, whole_instance
from benchmarks.vcpu_truth.servers import MeasuredServer, ThreadCurve
from benchmarks.vcpu_truth.yields import bundled_yields, usual_without

# One thread of a newer core keeps its divider busy: there integer division tells no yield.
SLOW_DIVIDER = ("Xeon E5-", "Xeon Platinum 8175M", "Xeon Platinum 8259CL", "Xeon Platinum 8275CL")
_SMALL = 8
Point = tuple[str, float, float]


def score_curves(curves: Sequence[ThreadCurve]) -> list[Figures]:
    """Errors over whole cores, and over second threads where the divider leaves room."""
    mixed = bundled_yields("mixed_marks_yield")
    cores: list[Point] = []
    threads: list[Point] = []
    small: list[Point] = []
    for curve in curves:
        first, second = _curve_points(curve, usual_without(mixed, curve.cpu))
        cores.extend(first)
        if any(name in curve.cpu for name in SLOW_DIVIDER):
            threads.extend(second)
            if curve.instance.physical_cores <= _SMALL:
                small.extend([*first, *second])
    return [
        _figures("whole cores", cores),
        _figures("second threads from all cores, slow dividers", threads),
        _figures("from one thread, up to 8 cores, slow dividers", small),
    ]


def _curve_points(curve: ThreadCurve, second_thread: float) -> tuple[list[Point], list[Point]]:
    """(CPU, predicted, true): one thread a core from the first, second threads from all cores."""
    cores = curve.instance.physical_cores
    counts = [threads for threads in sorted(curve.rates) if threads > 1]
    rates = host_rates([some_threads(curve.instance, n, second_thread) for n in (1, cores, *counts)])
    one, every = rates[0], rates[1]
    first = [
        (curve.cpu, curve.rates[1] * rate / one, curve.rates[n])
        for n, rate in zip(counts, rates[2:], strict=True)
        if n <= cores
    ]
    second = [
        (curve.cpu, curve.rates[cores] * rate / every, curve.rates[n])
        for n, rate in zip(counts, rates[2:], strict=True)
        if n > cores and cores in curve.rates
    ]
    return first, second


def score_switched_off(servers: Sequence[MeasuredServer]) -> list[Figures]:
    """The mark with second threads from that without, same CPU and cores; by kind of yield."""
    mixed = bundled_yields("mixed_marks_yield")
    division = bundled_yields("integer_division_yield")
    ways = {
        "usual yield": {cpu: usual_without(mixed, cpu) for cpu in division},
        "yield of integer division": division,
        "no yield": dict.fromkeys(division, 0.0),
    }
    return [_figures(name, _pairs(servers, way)) for name, way in ways.items()]


def _pairs(servers: Sequence[MeasuredServer], yields: dict[str, float]) -> list[Point]:
    points = []
    for off in servers:
        on = [one for one in servers if _is_twin(one, off)]
        if off.threaded or not on:
            continue
        rates = host_rates(
            [whole_instance(one.instance, off.single, yields[off.cpu]) for one in (off, on[0])]
        )
        true = float(np.median([one.mark / one.single for one in on])) / (off.mark / off.single)
        points.append((off.name, float(rates[1] / rates[0]), true))
    return points


def _is_twin(one: MeasuredServer, off: MeasuredServer) -> bool:
    """Same CPU and cores, with two threads each; big ones, whose cores are surely their own."""
    cores = one.instance.physical_cores
    return one.threaded and one.cpu == off.cpu and cores == off.instance.physical_cores > _SMALL


def _figures(name: str, points: Sequence[Point]) -> Figures:
    groups, predicted, true = zip(*points, strict=True)
    return figures(name, predicted, true, groups)
