"""Splits measurements into those that a fit may use and those that it may not, with reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from advisor.domain import REPLAYED_FROM, LimitedBy, Measurement, Stage, Status, Task, Trial
from advisor.errors import DataError

# Below this a K-fold over trials says nothing.
FEWEST_TRIALS = 12
# Batches that are made in memory or on the device, and words that lie in memory as numbers.
_NO_INPUT = ("synthetic", "text")


class Sorted(NamedTuple):
    """Measurements to fit, and how many were left out for which reason."""

    usable: tuple[Measurement, ...]
    left_out: tuple[tuple[str, int], ...]


def sort_out(measurements: Iterable[Measurement], networks: Collection[str]) -> Sorted:
    """Keeps valid rows: ended well, held to limits, finite, of known `networks`."""
    usable, reasons, seen = [], Counter[str](), set[str]()
    for measurement in measurements:
        reason = why_not(measurement, networks)
        if not reason and measurement.trial.trial_id in seen:
            # On both sides of a split it would be predicted from itself.
            reason = "the trial is there twice"
        if reason:
            reasons[reason] += 1
        else:
            seen.add(measurement.trial.trial_id)
            usable.append(measurement)
    return Sorted(tuple(usable), tuple(sorted(reasons.items())))


def why_not(measurement: Measurement, networks: Collection[str]) -> str:
    """The reason why a measurement cannot be fitted; empty if it can."""
    if measurement.status is not Status.OK:
        return f"status {measurement.status}"
    if measurement.limited_by is LimitedBy.NONE:
        return "its limits were not enforced"
    if REPLAYED_FROM in measurement.environment:
        return "replayed from a file, not measured"
    # A burst's rate is none that the disk has; stages above it are not fitted anyway.
    if "run" in (measurement.environment.get("disk_burst") or {}).get("above_baseline", ()):
        return "read its disk from burst credits"
    if outside := _outside_the_model(measurement.trial, networks):
        return outside
    rate = measurement.throughput_samples_per_second
    if rate is None or not (math.isfinite(rate) and rate > 0):
        return "no finite rate"
    if measurement.trial.accelerator.is_gpu and _accelerator_rate(measurement) is None:
        return "the GPU alone was not measured"
    return ""


def _outside_the_model(trial: Trial, networks: Collection[str]) -> str:
    if trial.unknown_settings:
        return f"ran with {', '.join(trial.unknown_settings)}, which the model does not know"
    if trial.processes > 1:
        return "ran on several GPUs: the step of one of them is learned, not its pipeline"
    workload = trial.workload
    if workload.dataset.storage_format in _NO_INPUT:
        return "its batches come from memory: no input pipeline"
    if workload.network not in networks:
        return f"what {workload.network} computes is not known to the model"
    return ""


def require_enough(measurements: Sequence[Measurement]) -> None:
    """Raise `DataError` for too few trials, and for trials that all gave the same rate."""
    if len(measurements) < FEWEST_TRIALS:
        raise DataError(
            "{count} usable measurements are too few to fit on: at least {fewest_trials} are needed",
            hint="run `advisor sweep run` with more vCPUs, memory sizes or disks",
            count=len(measurements),
            fewest_trials=FEWEST_TRIALS,
        )
    rates = {measurement.throughput_samples_per_second for measurement in measurements}
    if len(rates) == 1:
        raise DataError(
            "all measurements have the same rate, so nothing can be learnt from them",
            hint="sweep over different vCPUs, memory sizes or disks",
        )


def stated_accelerator_rate(measurement: Measurement) -> float | None:
    """Samples per second of the accelerator alone where it is no unknown: emulated, or a GPU or
    a network on the CPU that was measured by itself. Infinite for preprocessing, else None."""
    trial = measurement.trial
    if trial.workload.task is Task.PREPROCESSING:
        return math.inf
    if trial.emulated_step_seconds is not None:
        return trial.samples_per_step / trial.emulated_step_seconds
    return _accelerator_rate(measurement)


def measured_cpu_rate(measurement: Measurement) -> float | None:
    """Samples per second of the network alone on the CPU, where the trial measured it."""
    return _accelerator_rate(measurement) if measurement.trial.network_on_cpu else None


def _accelerator_rate(measurement: Measurement) -> float | None:
    rate = measurement.stage_rates.get(Stage.ACCELERATOR.value)
    return rate if rate and math.isfinite(rate) and rate > 0 else None
