"""How far one mark strays from another over CPUs: what the product's doubts are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.vcpu_truth.instances import REFERENCE_CPU, predicted_marks
from benchmarks.vcpu_truth.predicting import host_rates, some_threads
from benchmarks.vcpu_truth.servers import MeasuredServer, ThreadCurve
from benchmarks.vcpu_truth.yields import bundled_yields, usual_without

_FEW_CORES = 2
_FEWEST_DOUBLINGS = 1.0


def spreads(servers: Sequence[MeasuredServer], curves: Sequence[ThreadCurve]) -> dict[str, Any]:
    """Log standard deviations: of a CPU's speed, of second threads, of each doubling of cores."""
    return {
        "cpu_speed": _cpu_speed(servers),
        "second_thread_yield": _second_threads(),
        "per_doubling_of_cores": _per_doubling(servers, curves),
    }


def _cpu_speed(servers: Sequence[MeasuredServer]) -> dict[str, float]:
    """Whole cores only. Two CPUs stray, the measured one and the asked one: times sqrt(2)."""
    ratios: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in servers:
        if not one.threaded and one.instance.physical_cores <= _FEW_CORES:
            logs = np.log(one.mark / one.single / one.instance.physical_cores)
            ratios[one.instance.cpu.architecture][one.cpu].append(float(logs))
    found = {}
    for architecture, cpus in sorted(ratios.items()):
        medians = [float(np.median(values)) for values in cpus.values()]
        found[f"{architecture}_cpus"] = len(medians)
        found[f"{architecture}_log_sigma"] = round(float(np.std(medians, ddof=1) * 2**0.5), 3)
    means = [np.mean([np.median(v) for v in cpus.values()]) for _, cpus in sorted(ratios.items())]
    found["between_architectures_log_shift"] = round(float(means[0] - means[-1]), 3)
    return found


def _second_threads() -> dict[str, float]:
    yields = np.array(list(bundled_yields("mixed_marks_yield").values()))
    return {
        "cpus": len(yields),
        "median": round(float(np.median(yields)), 3),
        "log_sigma": round(float(np.std(np.log(yields), ddof=1)), 3),
    }


def _per_doubling(servers: Sequence[MeasuredServer], curves: Sequence[ThreadCurve]) -> dict[str, float]:
    """Root mean square of log error over doublings beyond two cores, both benchmarks alike."""
    marks = _mark_slopes(servers)
    division = _division_slopes(curves)
    both = [float(np.sqrt(np.mean(np.square(part)))) for part in (marks, division)]
    return {
        "mixed_marks": round(both[0], 3),
        "integer_division": round(both[1], 3),
        "log_sigma": round(float(np.hypot(*both) / 2**0.5), 3),
    }


def _mark_slopes(servers: Sequence[MeasuredServer]) -> list[float]:
    """Per CPU against its own smallest size, so that its speed has no part in it."""
    mixed = bundled_yields("mixed_marks_yield")
    by_cpu: dict[str, list[MeasuredServer]] = defaultdict(list)
    for one in servers:
        by_cpu[one.cpu].append(one)
    slopes = []
    for cpu, group in by_cpu.items():
        predicted = predicted_marks(servers, group, lambda name: usual_without(mixed, name))
        errors = np.log(predicted / [one.mark for one in group])
        cores = np.array([one.instance.physical_cores for one in group])
        base = float(np.median(errors[cores == cores.min()]))
        doublings = np.log2(cores / cores.min())
        far = doublings >= _FEWEST_DOUBLINGS
        if far.any() and cpu != REFERENCE_CPU:
            slopes.append(float(np.sqrt(np.mean(((errors - base)[far] / doublings[far]) ** 2))))
    return slopes


def _division_slopes(curves: Sequence[ThreadCurve]) -> list[float]:
    slopes = []
    for curve in curves:
        cores = curve.instance.physical_cores
        if cores > _FEW_CORES and cores in curve.rates and _FEW_CORES in curve.rates:
            rates = host_rates([some_threads(curve.instance, n, 0.33) for n in (_FEW_CORES, cores)])
            true = curve.rates[cores] / curve.rates[_FEW_CORES]
            slopes.append(float(np.log(rates[1] / rates[0] / true) / np.log2(cores / _FEW_CORES)))
    return slopes
