"""Reads and writes trials and measurements as JSON documents and files; no other module knows that form.

The worker's wire format, the store's payload and `advisor measurements export` all use it.
The format's history, so that old rows stay readable:

1   first version
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec import MsgspecError, Struct
from msgspec.structs import replace

from advisor.domain import (
    Accelerator,
    CacheState,
    Cpu,
    DatasetProfile,
    DiskRate,
    Gpu,
    Measurement,
    MemoryFormat,
    Precision,
    Resources,
    Stack,
    Status,
    Task,
    Tf32,
    Trial,
    Workload,
    without_the_usual,
)
from advisor.domain.machines import is_positive
from advisor.errors import DataError, UsageError, one_line
from advisor.files import csv_of, system_errors
from advisor.records import asdict
from advisor.strict_json import check_json

SCHEMA_VERSION = 1
_MOST_REASON = 200


def trial_to_dict(trial: Trial) -> dict[str, Any]:
    """The trial as a JSON document; enumerations become their values."""
    document: dict[str, Any] = _plain(asdict(trial))
    workload, resources = without_the_usual(document["workload"]), document["resources"]
    disk = {name: value for name, value in resources["disk"].items() if name not in ("low", "high")}
    return {
        **document,
        "workload": workload,
        "resources": {**resources, "disk": disk},
        "accelerator": str(trial.accelerator),
    }


def trial_from_dict(document: Mapping[str, Any]) -> Trial:
    """The trial in a document. Raises `DataError` if the document is no trial."""
    try:
        return _trial(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"not a trial: {type(error).__name__}: {error}") from error


def measurement_to_dict(measurement: Measurement) -> dict[str, Any]:
    """The measurement as a JSON document: every raw value, unrounded, plus id and rate for human readers."""
    values = {name: getattr(measurement, name) for name in measurement.__struct_fields__}
    return {
        "schema": SCHEMA_VERSION,
        "trial_id": measurement.trial.trial_id,
        "throughput_samples_per_second": measurement.throughput_samples_per_second,
        **_plain({**values, "trial": trial_to_dict(measurement.trial)}),
    }


class NewerFormatError(DataError):
    """The row was written by a later version: it may be good, but this version cannot read it."""


def measurement_from_dict(document: Mapping[str, Any]) -> Measurement:
    """The measurement in a document. Raises `DataError` if the document is no measurement.

    Computed values (`trial_id`, the rate) are ignored and computed again."""
    if not isinstance(document, Mapping) or not isinstance(document.get("schema", 0), int):
        raise DataError("this is no measurement of `advisor measurements export`")
    if document.get("schema", 0) > SCHEMA_VERSION:
        raise NewerFormatError(
            f"measurement of format {document['schema']}, but this version reads up to "
            f"{SCHEMA_VERSION}; update the advisor"
        )
    try:
        known = {name: document[name] for name in Measurement.__struct_fields__ if name in document}
        row = msgspec.convert({**known, "trial": _trial(document["trial"])}, Measurement)
        # The step times of further runs become floats too.
        runs = [{**run, "step_seconds": list(map(float, run["step_seconds"]))} for run in row.repeats]
        return replace(row, repeats=tuple(runs))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MsgspecError) as error:
        raise DataError(f"not a measurement: {_reason(error)}") from error


def _trial(document: Mapping[str, Any]) -> Trial:
    """The trial of a document. Numbers keep their type: 2.0 instead of 2 would change the trial's id."""
    workload, resources = document["workload"], document["resources"]
    if not isinstance(workload["network"], str) or not isinstance(workload["batch_size"], int):
        raise ValueError("a network is a name, and a batch size a whole number")
    return Trial(
        workload=Workload(
            network=workload["network"],
            task=Task(workload["task"]),
            batch_size=workload["batch_size"],
            precision=Precision(workload["precision"]),
            dataset=DatasetProfile(**workload["dataset"]),
            stack=Stack(workload.get("stack", Stack.EAGER)),
            memory_format=MemoryFormat(workload.get("memory_format", MemoryFormat.CONTIGUOUS)),
            tf32=Tf32(workload.get("tf32", Tf32.CONVOLUTIONS)),
            input=workload.get("input"),
        ),
        resources=Resources(
            **{
                **resources,
                "disk": DiskRate(**resources["disk"]),
                "cpu": Cpu(**resources["cpu"]) if resources.get("cpu") else None,
                "gpu": Gpu(**resources["gpu"]) if resources.get("gpu") else None,
            }
        ),
        accelerator=Accelerator.parse(document["accelerator"]),
        emulated_step_seconds=document.get("emulated_step_seconds"),
        cache=CacheState(document["cache"]),
        dataset_path=document.get("dataset_path", ""),
        plan=dict(document.get("plan", {})),
    )


def _reason(error: Exception) -> str:
    """The error in one short line, without Python's terms."""
    if isinstance(error, KeyError):
        return f"{one_line(str(error))[:_MOST_REASON]} is missing"
    if isinstance(error, (ValueError, MsgspecError)):
        return one_line(str(error))[:_MOST_REASON]
    return "a field has a value of another kind than it must have"


def _plain(value: Any) -> Any:
    """The value with enumerations as their values and tuples as lists, so that JSON returns it unchanged."""
    if type(value) in (float, int, str):  # thousands of step times
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.value if hasattr(value, "value") else value


_RUN_FACTS = [
    "status",
    "step_seconds",
    "warmup_step_seconds",
    "cpu_seconds",
    "wall_seconds",
    "started_at",
    "environment",
]


def run_facts(measurement: Measurement) -> dict[str, Any]:
    """The raw facts of a run that are kept among the `repeats` of another run's row."""
    document = measurement_to_dict(measurement)
    return {name: document[name] for name in _RUN_FACTS}


# Column: the attribute of a measurement that fills it. Written out, so that a new field of a record
# cannot change the published columns; new columns are appended.
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
    """The measurement as one flat row with the keys `SUMMARY_COLUMNS`; numbers are unrounded."""
    row = dict(zip(SUMMARY_COLUMNS, _values(measurement), strict=True))
    return row | {
        "accelerator": str(row["accelerator"]),
        "steps": len(row["steps"]),
        "runs": len(row["runs"]),
        "cpu_model": row["cpu_model"].get("cpu_model"),
    }


def to_jsonl(measurements: Iterable[Measurement]) -> str:
    """JSON lines: one document a measurement, with every raw value."""
    return "".join(f"{json.dumps(measurement_to_dict(row))}\n" for row in measurements)


def to_csv(measurements: Sequence[Measurement]) -> str:
    """A CSV file with one summary row a measurement, below a header line."""
    return csv_of(map(summary_row, measurements), SUMMARY_COLUMNS)


_MOST_ROWS = 2**31


class RefusedLine(Struct, frozen=True):
    """A line that is no measurement, and the reason; lines count from 1."""

    line: int
    reason: str


class ReadLines(Struct, frozen=True):
    """One measurement a trial, the refused lines, and the number of `repeated` measurements."""

    measurements: tuple[Measurement, ...]
    refused: tuple[RefusedLine, ...]
    repeated: int


def read_file(path: Path) -> ReadLines:
    """The measurements in a file of JSON lines. Raises `DataError` if the file cannot be read."""
    way_out = "name a file of `advisor measurements export` or of a campaign"
    with system_errors(DataError, f"cannot read '{path}'", hint=way_out):
        content = path.read_bytes()
    return read_lines(content.split(b"\n"))


def read_lines(lines: Iterable[bytes], *, most_refused: int | None = None) -> ReadLines:
    """The measurements of JSON lines, in order; empty lines are skipped.

    Of several rows of a trial, a successful one beats a failed one; among equals the latest wins. Raises
    `UsageError` if more than `most_refused` lines are refused: such an upload is no file of ours, and its
    errors would fill the memory."""
    rows: dict[str, Measurement] = {}
    refused: list[RefusedLine] = []
    taken = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = read_line(line)
        except DataError as error:
            refused.append(RefusedLine(number, str(error)))
            if most_refused is not None and len(refused) > most_refused:
                first = refused[0]
                raise UsageError(
                    f"more than {most_refused} lines are no measurements",
                    hint=f"nothing was kept; line {first.line}: {first.reason}",
                ) from error
            continue
        taken += 1
        existing = rows.get(row.trial.trial_id)
        if existing is None or row.status is Status.OK or existing.status is not Status.OK:
            rows[row.trial.trial_id] = row
    return ReadLines(tuple(rows.values()), tuple(refused), taken - len(rows))


def read_line(line: bytes) -> Measurement:
    """The measurement of one line. Raises `DataError` if it is no measurement, or cannot be true."""
    try:
        check_json(line)
        document = json.loads(line, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        raise DataError(f"no JSON: {error}") from error
    if not isinstance(document, dict):
        raise DataError(f"a JSON {type(document).__name__}, not a measurement")
    row = measurement_from_dict(document)
    if reason := _impossible(row):
        raise DataError(reason)
    return row


def _not_a_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no measured number")


def _impossible(row: Measurement) -> str:
    """The reason why these values cannot have been measured; "" if they can."""
    is_whole = row.status in (Status.OK, Status.CONTAMINATED)
    model = row.environment.get("cpu_model", "")
    steps_are_times = all(map(is_positive, (*row.step_seconds, *row.warmup_step_seconds)))
    reasons = (
        (not steps_are_times, "a step takes a finite number of seconds above 0"),
        (row.status is Status.OK and not row.step_seconds, "status ok, but not one step was measured"),
        (not (is_whole or row.reason), f"status {row.status}, but no reason"),
        (not all(map(is_positive, row.stage_rates.values())), "a stage rate is a finite number above 0"),
        (not isinstance(model, (str, type(None))), "environment.cpu_model is a text"),
        (not isinstance(row.trial.dataset_path, str), "dataset_path is a text"),
    )
    return next((reason for is_wrong, reason in reasons if is_wrong), "") or _statistics_fault(row)


def _statistics_fault(row: Measurement) -> str:
    """The reason why statistics of this row, which every listing computes, would fail; "" if they work."""
    plan = row.trial.plan
    for name in ("samples_per_row", "loader_workers"):
        if not (isinstance(plan.get(name, 1), int) and 0 <= plan.get(name, 1) <= _MOST_ROWS):
            return f"{name} is a whole number of at most {_MOST_ROWS}"
    try:
        runs = [run["step_seconds"] for run in row.repeats]
        steps = [step for run in runs for step in run]
        rate = row.throughput_samples_per_second
        name = row.trial.trial_id
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        return f"its numbers cannot be true ({error})"
    if not all(map(is_positive, steps)) or (rate is not None and not is_positive(rate)):
        return "a step, and a rate, is a finite number above 0"
    return "" if name else "no trial"
