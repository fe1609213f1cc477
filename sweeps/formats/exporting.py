"""Measurements as text for other programs; pure but for writing the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.csv_cells import csv_lines, csv_of
from advisor.domain import Measurement
from sweeps.formats.serialization import measurement_to_dict

# Written out, so that a new field of a record cannot change the published columns.
SUMMARY_COLUMNS = (
    "trial_id",
    "status",
    "limited_by",
    "network",
    "task",
    "batch_size",
    "precision",
    "dataset",
    "samples",
    "bytes_per_sample",
    "accelerator",
    "emulated_step_seconds",
    "vcpus",
    "physical_cores",
    "memory_mib",
    "disk",
    "read_mib_per_second",
    "read_iops",
    "cache",
    "throughput_samples_per_second",
    "steps",
    "cpu_seconds",
    "wall_seconds",
    "peak_memory_mib",
    "read_bytes",
    "cpu_model",
    "started_at",
    "reason",
)


def summary_row(measurement: Measurement) -> Mapping[str, Any]:
    """One flat row, numbers unrounded, by `SUMMARY_COLUMNS`."""
    trial = measurement.trial
    workload, resources, dataset = trial.workload, trial.resources, trial.workload.dataset
    values = (
        trial.trial_id,
        measurement.status.value,
        measurement.limited_by.value,
        workload.network,
        workload.task.value,
        workload.batch_size,
        workload.precision.value,
        dataset.name,
        dataset.samples,
        dataset.bytes_per_sample,
        trial.accelerator,
        trial.emulated_step_seconds,
        resources.vcpus,
        resources.physical_cores,
        resources.memory_mib,
        resources.disk.type,
        resources.disk.read_mib_per_second,
        resources.disk.read_iops,
        trial.cache.value,
        measurement.throughput_samples_per_second,
        len(measurement.step_seconds),
        measurement.cpu_seconds,
        measurement.wall_seconds,
        measurement.peak_memory_mib,
        measurement.read_bytes,
        measurement.environment.get("cpu_model"),
        measurement.started_at,
        measurement.reason,
    )
    return dict(zip(SUMMARY_COLUMNS, values, strict=True))


def to_jsonl(measurements: Iterable[Measurement]) -> str:
    """One JSON document a line, with every raw value."""
    return "".join(f"{json.dumps(measurement_to_dict(row))}\n" for row in measurements)


def to_csv(measurements: Sequence[Measurement]) -> str:
    """One summary row a measurement, below the columns' names."""
    return csv_header() + csv_rows(map(summary_row, measurements))


def csv_header() -> str:
    """The columns' names."""
    return csv_of((), SUMMARY_COLUMNS)


def csv_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows alone; what a row does not have is empty."""
    return csv_lines(rows, SUMMARY_COLUMNS)
