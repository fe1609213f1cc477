"""Between which ends the trials of a sweep lie, by what a prediction is asked about."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from advisor.domain import Measurement, Resources, Workload

Ranges = Mapping[str, tuple[float, float]]

# Name: what it is of a workload on resources; None where it is not limited or not known.
FACTS: Mapping[str, Callable[[Workload, Resources], float | None]] = {
    "vcpus": lambda _, has: has.vcpus,
    "disk_throughput": lambda _, has: has.disk.read_mib_per_second,
    "disk_iops": lambda _, has: has.disk.read_iops,
    "sample_bytes": lambda workload, _: workload.dataset.bytes_per_sample,
    "decoded_pixels": lambda workload, _: workload.dataset.pixels,
}


def measured_ranges(measurements: Sequence[Measurement]) -> Ranges:
    """Smallest and largest of each fact; a fact that no trial has is left out."""
    ranges = {}
    for name, fact in FACTS.items():
        trials = (measurement.trial for measurement in measurements)
        values = [fact(trial.workload, trial.resources) for trial in trials]
        existing = [float(value) for value in values if value is not None]
        if existing:
            ranges[name] = (min(existing), max(existing))
    return ranges


def ranges_from(raw: Mapping[str, Sequence[float]]) -> Ranges:
    """Ranges as a model's file has them; `ValueError` for what is none."""
    ranges = {}
    for name, (low, high) in raw.items():
        if not (name in FACTS and 0 < low <= high < math.inf):
            raise ValueError(f"the measured range of {name} is {low} to {high}")
        ranges[name] = (float(low), float(high))
    return ranges
