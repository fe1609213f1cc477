"""Errors of the host stage against measured servers, and how far one mark strays from another.

PassMark's CPU mark of every instance is predicted from whole cores of one other CPU, as a sweep does it:
measured on one or two cores of EPYC 9R14 (Zen 4, one thread a core, the CPU of the bundled sweep), carried to
other CPUs by their single-thread mark, to more cores by the scaling law, to second threads by their yield.
The yield was read from PassMark's marks; integer division and servers with one thread a core had no part in
it, so both try it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from advisor.models.bayes import Floats
from benchmarks.vcpu_truth.measured import (
    MeasuredServer,
    ThreadCurve,
    bundled_yields,
    host_rates,
    some_threads,
    usual_without,
    whole_instance,
)

REFERENCE_CPU = "AMD EPYC 9R14"
_REFERENCE_CORES = 2
_SMALL_CORES = 16
YieldOf = Callable[[str], float]

# One thread of a newer core keeps its divider busy: there integer division tells no yield.
SLOW_DIVIDER = ("Xeon E5-", "Xeon Platinum 8175M", "Xeon Platinum 8259CL", "Xeon Platinum 8275CL")
_BIG_CORES = 8
Point = tuple[str, float, float]

_FEW_CORES = 2
_FEWEST_DOUBLINGS = 1.0


class Figures(Struct, frozen=True, kw_only=True):
    """Absolute percentage errors over `n` scored rows; `groups` has mean errors by CPU or server."""

    name: str
    n: int
    mape_percent: float
    median_percent: float
    p90_percent: float
    groups: Mapping[str, float]

    def as_document(self) -> dict[str, Any]:
        """The figures, with the group of the largest mean error, as JSON has them."""
        worst = max(self.groups, key=lambda group: self.groups[group])
        return {
            "name": self.name,
            "n": self.n,
            "mape_percent": round(self.mape_percent, 2),
            "median_percent": round(self.median_percent, 2),
            "p90_percent": round(self.p90_percent, 2),
            "worst_group": {"group": worst, "mape_percent": round(self.groups[worst], 2)},
        }


def figures(name: str, predicted: ArrayLike, true: ArrayLike, groups: Sequence[str]) -> Figures:
    """Errors |predicted / true - 1|; `groups` names the group of every row."""
    errors = 100 * np.abs(np.asarray(predicted, float) / np.asarray(true, float) - 1)
    labels = np.asarray(groups)
    return Figures(
        name=name,
        n=len(errors),
        mape_percent=float(np.mean(errors)),
        median_percent=float(np.median(errors)),
        p90_percent=float(np.quantile(errors, 0.9)),
        groups={str(group): float(np.mean(errors[labels == group])) for group in np.unique(labels)},
    )


def score_instances(servers: Sequence[MeasuredServer]) -> tuple[list[Figures], list[Figures]]:
    """Ours by size and architecture, and baselines on the x86 instances of up to 16 cores."""
    scored = [server for server in servers if server.cpu != REFERENCE_CPU]
    x86 = [server for server in scored if server.instance.cpu.architecture == "x86_64"]
    small = [server for server in x86 if server.instance.physical_cores <= _SMALL_CORES]
    arm = [server for server in scored if server.instance.cpu.architecture != "x86_64"]
    mixed = bundled_yields("mixed_marks_yield")
    division = bundled_yields("integer_division_yield")

    def usual(cpu: str) -> float:
        return usual_without(mixed, cpu)

    ours = [
        _instance_figures("x86, up to 16 cores", servers, small, usual),
        _instance_figures("x86, all sizes", servers, x86, usual),
        _instance_figures(
            "Arm, up to 16 cores", servers, [server for server in arm if _is_small(server)], usual
        ),
    ]
    baselines = [
        _instance_figures("yield of integer division", servers, small, lambda cpu: division.get(cpu, 0.0)),
        _instance_figures("no yield", servers, small, lambda _: 0.0),
        _instance_figures("each CPU's own yield", servers, small, lambda cpu: mixed.get(cpu, usual(cpu))),
        _per_vcpu(servers, small),
    ]
    return ours, baselines


def predicted_marks(
    servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer], yield_of: YieldOf
) -> Floats:
    """Marks (n,) of the scored servers from the reference's alone."""
    known = _reference(servers)
    marks = np.array([server.mark for server in known])
    scale = float(np.median(marks / _host_rates(known, yield_of)))
    predicted: Floats = scale * _host_rates(scored, yield_of)
    return predicted


def _is_small(server: MeasuredServer) -> bool:
    return server.instance.physical_cores <= _SMALL_CORES


def _reference(servers: Sequence[MeasuredServer]) -> list[MeasuredServer]:
    return [
        server
        for server in servers
        if server.cpu == REFERENCE_CPU and server.instance.physical_cores <= _REFERENCE_CORES
    ]


def _host_rates(servers: Sequence[MeasuredServer], yield_of: YieldOf) -> Floats:
    return host_rates(
        [whole_instance(server.instance, server.single, yield_of(server.cpu)) for server in servers]
    )


def _instance_figures(
    name: str, servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer], yield_of: YieldOf
) -> Figures:
    predicted = predicted_marks(servers, scored, yield_of)
    return figures(name, predicted, [server.mark for server in scored], [server.cpu for server in scored])


def _per_vcpu(servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer]) -> Figures:
    """A vCPU as the unit: the reference's mark a vCPU, times vCPUs."""
    each = np.median([server.mark / server.instance.vcpus for server in _reference(servers)])
    predicted = [each * server.instance.vcpus for server in scored]
    name = "a vCPU is a vCPU"
    return figures(name, predicted, [server.mark for server in scored], [server.cpu for server in scored])


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
            if curve.instance.physical_cores <= _BIG_CORES:
                small.extend([*first, *second])
    return [
        _point_figures("whole cores", cores),
        _point_figures("second threads from all cores, slow dividers", threads),
        _point_figures("from one thread, up to 8 cores, slow dividers", small),
    ]


def _curve_points(curve: ThreadCurve, second_thread: float) -> tuple[list[Point], list[Point]]:
    """(CPU, predicted, true): one thread a core from the first, second threads from all cores."""
    cores = curve.instance.physical_cores
    counts = [threads for threads in sorted(curve.rates) if threads > 1]
    rates = host_rates([some_threads(curve.instance, n, second_thread) for n in (1, cores, *counts)])
    first_thread, all_threads = rates[0], rates[1]
    first = [
        (curve.cpu, curve.rates[1] * rate / first_thread, curve.rates[n])
        for n, rate in zip(counts, rates[2:], strict=True)
        if n <= cores
    ]
    second = [
        (curve.cpu, curve.rates[cores] * rate / all_threads, curve.rates[n])
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
    return [_point_figures(name, _pairs(servers, way)) for name, way in ways.items()]


def _pairs(servers: Sequence[MeasuredServer], yields: dict[str, float]) -> list[Point]:
    points = []
    for off in servers:
        on = [server for server in servers if _is_twin(server, off)]
        if off.threaded or not on:
            continue
        rates = host_rates(
            [whole_instance(server.instance, off.single, yields[off.cpu]) for server in (off, on[0])]
        )
        true = float(np.median([server.mark / server.single for server in on])) / (off.mark / off.single)
        points.append((off.name, float(rates[1] / rates[0]), true))
    return points


def _is_twin(server: MeasuredServer, off: MeasuredServer) -> bool:
    """Same CPU and cores, with two threads each; big ones, whose cores are surely their own."""
    cores = server.instance.physical_cores
    return server.threaded and server.cpu == off.cpu and cores == off.instance.physical_cores > _BIG_CORES


def _point_figures(name: str, points: Sequence[Point]) -> Figures:
    groups, predicted, true = zip(*points, strict=True)
    return figures(name, predicted, true, groups)


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
    for server in servers:
        if not server.threaded and server.instance.physical_cores <= _FEW_CORES:
            logs = np.log(server.mark / server.single / server.instance.physical_cores)
            ratios[server.instance.cpu.architecture][server.cpu].append(float(logs))
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
    for server in servers:
        by_cpu[server.cpu].append(server)
    slopes = []
    for cpu, group in by_cpu.items():
        predicted = predicted_marks(servers, group, lambda name: usual_without(mixed, name))
        errors = np.log(predicted / [server.mark for server in group])
        cores = np.array([server.instance.physical_cores for server in group])
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
