"""Fits how fast CPUs compute networks: `python -m advisor.infra.build.fitting.cpu_fit`.

The rows are infra/build/cpu_steps/measurements.jsonl, made by `python -m infra.build.campaign gpu-hour
--device cpu` and `--bundle FILE ...` (without places, host names and what each row repeats); the result is
advisor/data/performance/cpu_step_times.npz. `--check` says whether that file is what the rows give.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from advisor.domain import Measurement, Precision, Status
from advisor.domain.results import mean_step_seconds
from advisor.errors import DataError
from advisor.infra.build.fitting.bundled_model import BUNDLED_MEASUREMENTS, ROOT, write_measurements
from advisor.infra.build.fitting.files import seal, write_cpu_step_times
from advisor.infra.build.fitting.observations import MeasuredStep
from advisor.infra.build.fitting.step_times import fit_cpu_step_times
from advisor.models.performance import cpu_step_times
from advisor.models.performance.cpu_step_time import CpuConditions
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.persistence import CPU_FILE
from advisor.models.performance.usable import measured_cpu_rate
from advisor.runs.fitting import measurements_from, reference_cpu

ROWS = ROOT / "infra/build/cpu_steps" / "measurements.jsonl"
_DROPPED = ("host", "fingerprint", "gpu_peak_allocated_mib", "gpu_peak_reserved_mib", "gpu")
_MOST_STEPS = 12
# Largest difference of fitted logarithms that counts as equal.
_CLOSE = 0.02


def bundle(files: Sequence[Path]) -> int:
    """Replace the rows in the checkout by those of the campaigns; returns how many."""
    by_trial = {
        measurement.trial.trial_id: measurement for file in files for measurement in measurements_from(file)
    }
    kept = (_compact(measurement) for measurement in by_trial.values() if measurement.status is Status.OK)
    return write_measurements(ROWS, kept)


def rebuilt() -> cpu_step_times.CpuStepTimes:
    """Step times fitted on the rows in the checkout."""
    reference = reference_cpu(measurements_from(ROWS)[0])
    return fit_cpu_step_times(measured_cpu_steps(), reference.score)


def measured_cpu_steps() -> list[MeasuredStep]:
    """Rows of the campaigns, and rows of the bundled sweep that ran networks on whole cores."""
    sweep = measurements_from(BUNDLED_MEASUREMENTS)
    return cpu_rows(measurements_from(ROWS)) + _of_sweep(sweep)


def cpu_rows(measurements: Iterable[Measurement]) -> list[MeasuredStep]:
    """Successful fp32 steps of networks whose operations are known."""
    return [
        _row(measurement, mean_step_seconds(measurement.step_seconds))
        for measurement in measurements
        if measurement.status is Status.OK
        and measurement.trial.workload.precision is Precision.FP32
        and bundled_networks().knows(measurement.trial.workload.network)
    ]


def _of_sweep(measurements: Iterable[Measurement]) -> list[MeasuredStep]:
    """Rows of a sweep; trials that differ only in their disk make one row."""
    found: dict[tuple[object, ...], list[MeasuredStep]] = {}
    for measurement in measurements:
        rate = measured_cpu_rate(measurement)
        if rate is not None and measurement.status is Status.OK and measurement.trial.resources.vcpus >= 1:
            row = _row(measurement, measurement.trial.workload.batch_size / rate)
            step = row.cell.step
            found.setdefault((row.cell.network, step.batch_size, step.conditions), []).append(row)
    return [
        rows[0]._replace(seconds=statistics.median(row.seconds for row in rows)) for rows in found.values()
    ]


def _row(measurement: Measurement, seconds: float) -> MeasuredStep:
    workload, resources = measurement.trial.workload, measurement.trial.resources
    facts = bundled_networks().of(workload)
    cores = min(resources.vcpus, resources.physical_cores)
    how = CpuConditions(task=str(workload.task), cores=cores)
    cell = cpu_step_times.cpu_cell(facts, how, float(workload.batch_size))
    return MeasuredStep(cell, seconds, cpu_step_times.ROW_SIGMA, "cpu_steps", facts.family, True)


def _compact(measurement: Measurement) -> Measurement:
    """The measurement without places and host names, and with only enough steps to show their spread."""
    environment = {name: value for name, value in measurement.environment.items() if name not in _DROPPED}
    steps = tuple(round(seconds, 6) for seconds in measurement.step_seconds[-_MOST_STEPS:])
    return replace(measurement, step_seconds=steps, warmup_step_seconds=(), environment=environment)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, check or evaluate; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", nargs="+", type=Path, metavar="FILE", help="rows to keep first")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where it differs")
    options = parser.parse_args(arguments)
    if options.bundle:
        sys.stdout.write(f"{bundle(options.bundle)} rows kept\n")
    found = rebuilt()
    if options.check:
        if not is_same(found, cpu_step_times.bundled_cpu_step_times()):
            raise DataError(f"{CPU_FILE} is not what {ROWS} gives: build it without --check")
        return 0
    write_cpu_step_times(found, CPU_FILE)
    seal()
    return 0


def is_same(first: cpu_step_times.CpuStepTimes, other: cpu_step_times.CpuStepTimes) -> bool:
    """True if both are equal up to differences that another CPU's BLAS causes in the search."""
    means = first.posterior.mean, other.posterior.mean
    alike = first.posterior.names == other.posterior.names and first.networks == other.networks
    return alike and bool(np.allclose(*means, rtol=0, atol=_CLOSE))


if __name__ == "__main__":
    raise SystemExit(main())
