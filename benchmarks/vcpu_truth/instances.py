"""PassMark's CPU mark of every instance, predicted from whole cores of one other CPU.

As a sweep does it: measured on one or two cores of EPYC 9R14 (Zen 4, one thread a core, the CPU of
the bundled sweep), carried to other CPUs by their single-thread mark, to more cores by the
scaling law, to second threads by their yield.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from advisor.models.bayes import Floats
from benchmarks.accuracy.figures import Figures, figures
from benchmarks.vcpu_truth.predicting import host_rates, whole_instance
from benchmarks.vcpu_truth.servers import MeasuredServer
from benchmarks.vcpu_truth.yields import bundled_yields, usual_without

REFERENCE_CPU = "AMD EPYC 9R14"
_REFERENCE_CORES = 2
_SMALL = 16
YieldOf = Callable[[str], float]


def score_instances(servers: Sequence[MeasuredServer]) -> tuple[list[Figures], list[Figures]]:
    """Ours by size and architecture, and baselines on the x86 instances of up to 16 cores."""
    scored = [one for one in servers if one.cpu != REFERENCE_CPU]
    x86 = [one for one in scored if one.instance.cpu.architecture == "x86_64"]
    small = [one for one in x86 if one.instance.physical_cores <= _SMALL]
    arm = [one for one in scored if one.instance.cpu.architecture != "x86_64"]
    mixed = bundled_yields("mixed_marks_yield")
    division = bundled_yields("integer_division_yield")

    def usual(cpu: str) -> float:
        return usual_without(mixed, cpu)

    ours = [
        _figures("x86, up to 16 cores", servers, small, usual),
        _figures("x86, all sizes", servers, x86, usual),
        _figures("Arm, up to 16 cores", servers, [one for one in arm if _is_small(one)], usual),
    ]
    baselines = [
        _figures("yield of integer division", servers, small, lambda cpu: division.get(cpu, 0.0)),
        _figures("no yield", servers, small, lambda _: 0.0),
        _figures("each CPU's own yield", servers, small, lambda cpu: mixed.get(cpu, usual(cpu))),
        _per_vcpu(servers, small),
    ]
    return ours, baselines


def predicted_marks(
    servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer], yield_of: YieldOf
) -> Floats:
    """Marks (n,) of the scored servers from the reference's alone."""
    known = _reference(servers)
    marks = np.array([one.mark for one in known])
    scale = float(np.median(marks / _host_rates(known, yield_of)))
    predicted: Floats = scale * _host_rates(scored, yield_of)
    return predicted


def _is_small(one: MeasuredServer) -> bool:
    return one.instance.physical_cores <= _SMALL


def _reference(servers: Sequence[MeasuredServer]) -> list[MeasuredServer]:
    return [
        one for one in servers if one.cpu == REFERENCE_CPU and one.instance.physical_cores <= _REFERENCE_CORES
    ]


def _host_rates(servers: Sequence[MeasuredServer], yield_of: YieldOf) -> Floats:
    return host_rates([whole_instance(one.instance, one.single, yield_of(one.cpu)) for one in servers])


def _figures(
    name: str, servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer], yield_of: YieldOf
) -> Figures:
    predicted = predicted_marks(servers, scored, yield_of)
    return figures(name, predicted, [one.mark for one in scored], [one.cpu for one in scored])


def _per_vcpu(servers: Sequence[MeasuredServer], scored: Sequence[MeasuredServer]) -> Figures:
    """A vCPU as the unit: the reference's mark a vCPU, times vCPUs."""
    each = np.median([one.mark / one.instance.vcpus for one in _reference(servers)])
    predicted = [each * one.instance.vcpus for one in scored]
    name = "a vCPU is a vCPU"
    return figures(name, predicted, [one.mark for one in scored], [one.cpu for one in scored])
