"""Trials and measurements as JSON documents: the one place that knows their written form.

The worker's wire format, the store's payload and `advisor measurements export` all use it.
History of the format, so that old rows stay readable:

1   first version
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.domain import (
    Accelerator,
    CacheState,
    Cpu,
    DatasetProfile,
    DiskRate,
    Gpu,
    LimitedBy,
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
from advisor.errors import DataError, one_line
from advisor.records import asdict

SCHEMA_VERSION = 1
_MOST_REASON = 200


def trial_to_dict(trial: Trial) -> dict[str, Any]:
    """A JSON document of the trial; enumerations become their words."""
    document: dict[str, Any] = _plain(asdict(trial))
    return _shortened(document, trial)


def trial_from_dict(document: Mapping[str, Any]) -> Trial:
    """The trial a document describes; `DataError` when it describes none."""
    try:
        return _trial(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError("not a trial: {name}: {error}", name=type(error).__name__, error=error) from error


def measurement_to_dict(measurement: Measurement) -> dict[str, Any]:
    """A JSON document with every raw value, unrounded, plus the id and rate for readers."""
    values = {name: getattr(measurement, name) for name in measurement.__struct_fields__}
    return {
        "schema": SCHEMA_VERSION,
        "trial_id": measurement.trial.trial_id,
        "throughput_samples_per_second": measurement.throughput_samples_per_second,
        **_plain({**values, "trial": trial_to_dict(measurement.trial)}),
    }


def _shortened(document: Mapping[str, Any], trial: Trial) -> dict[str, Any]:
    """Without what is as usual and was not written either before it could be otherwise; the
    accelerator in its written form."""
    workload, resources = without_the_usual(document["workload"]), document["resources"]
    disk = {name: value for name, value in resources["disk"].items() if name not in ("low", "high")}
    return {
        **document,
        "workload": workload,
        "resources": {**resources, "disk": disk},
        "accelerator": str(trial.accelerator),
    }


class NewerFormatError(DataError):
    """Written by a later version; the row is good, and this version cannot read it."""


def measurement_from_dict(document: Mapping[str, Any]) -> Measurement:
    """The measurement a document describes; `DataError` when it describes none.

    What is computed (`trial_id`, the rate) is computed again, never believed.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("schema", 0), int):
        raise DataError("this is no measurement of `advisor measurements export`")
    if document.get("schema", 0) > SCHEMA_VERSION:
        raise NewerFormatError(
            f"measurement of format {document['schema']}, but this version reads up to "
            f"{SCHEMA_VERSION}; update the advisor"
        )
    try:
        return _measurement(document)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DataError("not a measurement: {reason}", reason=_reason(error)) from error


def _trial(document: Mapping[str, Any]) -> Trial:
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
    """The error in plain words, not Python's, on a line of bounded length."""
    if isinstance(error, KeyError):
        return f"{one_line(str(error))[:_MOST_REASON]} is missing"
    if isinstance(error, ValueError):
        return one_line(str(error))[:_MOST_REASON]
    return "a field has a value of another kind than it must have"


def _measurement(document: Mapping[str, Any]) -> Measurement:
    return Measurement(
        trial=_trial(document["trial"]),
        status=Status(document["status"]),
        limited_by=LimitedBy(document["limited_by"]),
        step_seconds=tuple(map(float, document["step_seconds"])),
        warmup_step_seconds=tuple(map(float, document.get("warmup_step_seconds", ()))),
        stage_rates=dict(document.get("stage_rates", {})),
        cpu_seconds=document.get("cpu_seconds"),
        wall_seconds=document.get("wall_seconds"),
        peak_memory_mib=document.get("peak_memory_mib"),
        read_bytes=document.get("read_bytes"),
        environment=dict(document.get("environment", {})),
        started_at=document.get("started_at", ""),
        reason=document.get("reason", ""),
        attempts=tuple(document.get("attempts", ())),
        # Further runs with step times that can be computed with.
        repeats=tuple(
            {**run, "step_seconds": list(map(float, run["step_seconds"]))}
            for run in document.get("repeats", ())
        ),
    )


def _plain(value: Any) -> Any:
    """Enumerations to their words, tuples to lists: what JSON gives back unchanged."""
    if type(value) in (float, int, str):  # thousands of step times
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.value if hasattr(value, "value") else value


_RUN_FACTS = (
    "status",
    "step_seconds",
    "warmup_step_seconds",
    "cpu_seconds",
    "wall_seconds",
    "started_at",
    "environment",
)


def run_facts(measurement: Measurement) -> dict[str, Any]:
    """The raw facts of a run that another run's row keeps."""
    document = measurement_to_dict(measurement)
    return {name: document[name] for name in _RUN_FACTS}
