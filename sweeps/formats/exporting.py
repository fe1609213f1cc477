"""Measurements as text for other programs; pure but for writing the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from advisor.csv_cells import csv_lines, csv_of
from advisor.domain import Measurement
from advisor.sweeps.formats.serialization import measurement_to_dict

# Column: where its value stands. Written out, so that a new field of a record cannot change the
# published columns; new ones stand last.
_PLACES = {
    "trial_id": "trial.trial_id",
    "status": "status.value",
    "limited_by": "limited_by.value",
    "network": "trial.workload.network",
    "task": "trial.workload.task.value",
    "batch_size": "trial.workload.batch_size",
    "precision": "trial.workload.precision.value",
    "dataset": "trial.workload.dataset.name",
    "samples": "trial.workload.dataset.samples",
    "bytes_per_sample": "trial.workload.dataset.bytes_per_sample",
    "accelerator": "trial.accelerator",
    "emulated_step_seconds": "trial.emulated_step_seconds",
    "vcpus": "trial.resources.vcpus",
    "physical_cores": "trial.resources.physical_cores",
    "memory_mib": "trial.resources.memory_mib",
    "disk": "trial.resources.disk.type",
    "read_mib_per_second": "trial.resources.disk.read_mib_per_second",
    "read_iops": "trial.resources.disk.read_iops",
    "cache": "trial.cache.value",
    "throughput_samples_per_second": "throughput_samples_per_second",
    "steps": "step_seconds",
    "cpu_seconds": "cpu_seconds",
    "wall_seconds": "wall_seconds",
    "peak_memory_mib": "peak_memory_mib",
    "read_bytes": "read_bytes",
    "cpu_model": "environment",
    "started_at": "started_at",
    "reason": "reason",
    "median_samples_per_second": "median_samples_per_second",
    "stall_share": "stall_share",
    "runs": "run_steps",
    "processes": "trial.processes",
}
SUMMARY_COLUMNS = tuple(_PLACES)
_values = attrgetter(*_PLACES.values())


def summary_row(measurement: Measurement) -> Mapping[str, Any]:
    """One flat row, numbers unrounded, by `SUMMARY_COLUMNS`."""
    row = dict(zip(SUMMARY_COLUMNS, _values(measurement), strict=True))
    return row | {
        "accelerator": str(row["accelerator"]),
        "steps": len(row["steps"]),
        "runs": len(row["runs"]),
        "cpu_model": row["cpu_model"].get("cpu_model"),
    }


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
