"""Writes a fitted model to one JSON file, and reads it with the step times that ship.

Files of step times hold numbers only, of which just the needed ones are decoded. advisor.step-times/1 is one
NumPy record: `meta` is JSON (names of parameters, groups of effects, networks, what was measured, quantiles);
the other fields are arrays: parameters with their correlations, effects of networks one after another
(`effect_first`), and the measured steps for `kinship`. advisor.cpu-step-times/1 is the same without kinship.
Opening an archive of arrays instead took 12 ms longer per answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import asdict

from advisor.domain import Gpu, Precision, Task, Workload
from advisor.domain.machines import gpu_of_row
from advisor.domain.workload import is_own_code
from advisor.errors import DataError, UsageError, unknown_name
from advisor.files import write_whole
from advisor.messages import FieldName, Message
from advisor.models.bundled import (
    CPU_STEP_TIMES,
    FOLDER,
    MODEL,
    STEP_TIMES,
    read_bundled,
    read_bundled_array,
    read_data_sheets,
)
from advisor.models.performance.gpu_observations import GpuObservations
from advisor.models.performance.machines import FACTS
from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.networks import NetworkTable, bundled_networks
from advisor.models.performance.pipeline import PIPELINE_PRIORS, Pipeline
from advisor.models.performance.posterior import Kinship, posterior_of, quantiles_of
from advisor.models.performance.step_times import StepTimes

SCHEMA = "advisor.performance/5"
BUNDLED_PATH = FOLDER / MODEL
STEP_TIMES_SCHEMA, CPU_SCHEMA = "advisor.step-times/1", "advisor.cpu-step-times/1"
STEP_TIMES_FILE, CPU_FILE = FOLDER / STEP_TIMES, FOLDER / CPU_STEP_TIMES
SETS = ("networks", "gpus", "cells", "capabilities")
KINSHIP = ("centre", "spread", "features", "residuals", "noise")
_OF_A_WORKLOAD = ("network", "input", "task", "batch_size", "precision", "stack", "memory_format", "tf32")
_OF_A_STEP = ("seconds", "sigma", "origin")
_OF_LAYERS = ("name", "backward", "precision", "seconds")


def load_model(path: Path | None = None) -> PerformanceModel:
    """The model in `path`, or the one that ships. `DataError` when it cannot be used."""
    return _bundled() if path is None else _read_model(path)


def save_model(model: PerformanceModel, path: Path) -> None:
    """Write the whole file or leave the old one; `DataError` when there is no room."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)  # a failure is reported on writing
    write_whole(path, json.dumps(to_document(model), sort_keys=True, allow_nan=False) + "\n")


def content_id(document: Mapping[str, Any]) -> str:
    """12 hex digits of the hash of everything in the document except its id."""
    content = {key: value for key, value in document.items() if key != "id"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_document(model: PerformanceModel) -> dict[str, Any]:
    """The JSON document of a model; its id is the hash of its content."""
    document = {
        "schema": SCHEMA,
        "trained_on": model.trained_on,
        "error_percent": model.error_percent,
        "sources": list(model.sources),
        "step_times": model.step_times.id,
        "gpu_observations": _observations_document(model.gpu_observations),
        "pipeline": to_builtins(model.pipeline, order="sorted"),
    }
    return document | {"id": content_id(document)}


def from_document(document: Mapping[str, Any], table: NetworkTable) -> PerformanceModel:
    """The model in a document; KeyError, TypeError or ValueError if it is not valid."""
    result = _observations_from(document["gpu_observations"])
    return PerformanceModel(
        id=document["id"],
        trained_on=document["trained_on"],
        error_percent=float(document["error_percent"]),
        sources=tuple(document["sources"]),
        step_times=bundled_step_times().condition(result.steps, table, result.layers),
        gpu_observations=result,
        pipeline=_pipeline(document["pipeline"]),
        table=table,
    )


def _observations_document(observations: GpuObservations) -> dict[str, Any]:
    """Rows of names and numbers, with each GPU's data sheet once; `_observations_from` reads them back."""
    gpus = {step.gpu.name: step.gpu for step in observations.steps}
    gpus |= {layer.gpu.name: layer.gpu for layer in observations.layers}
    return {
        "gpus": {name: asdict(gpu) for name, gpu in sorted(gpus.items())},
        "steps": [
            {
                **{name: getattr(step.workload, name) for name in _OF_A_WORKLOAD},
                **{name: getattr(step, name) for name in _OF_A_STEP},
                "gpu": step.gpu.name,
            }
            for step in observations.steps
        ],
        "layers": [
            {name: getattr(layer, name) for name in _OF_LAYERS}
            | {"sizes": dict(layer.sizes), "gpu": layer.gpu.name}
            for layer in observations.layers
        ],
    }


def _observations_from(document: Mapping[str, Any]) -> GpuObservations:
    """The observations in a document; KeyError, TypeError or ValueError if it is not valid."""
    gpus = convert(document["gpus"], dict[str, Gpu])
    # A row holds the fields of the workload next to those of the step.
    steps = [{**row, "workload": row, "gpu": gpus[row["gpu"]]} for row in document["steps"]]
    layers = [{**row, "gpu": gpus[row["gpu"]]} for row in document["layers"]]
    return convert((steps, layers), GpuObservations)


@cache
def bundled_step_times() -> StepTimes:
    """The step times that ship, read once; `DataError` if their file is missing or damaged."""
    return step_times_from(read_bundled_array(STEP_TIMES))


def step_times_from(record: Any) -> StepTimes:
    """The step times of a file's record."""
    meta = json.loads(record["meta"].tobytes())
    numbers = {name: record[f"kinship_{name}"].astype(float) for name in KINSHIP}
    sets: dict[str, Any] = {name: frozenset(meta[name]) for name in SETS}
    return StepTimes(
        posterior=posterior_of(meta, record),
        kinship=Kinship(**numbers, level=float(meta["level"])),
        quantiles=quantiles_of(meta),
        id=str(meta["id"]),
        **sets,
    )


@cache
def _bundled() -> PerformanceModel:
    # `read_bundled` checks the file's seal quickly; comparing the content with the id would take 3 ms.
    return from_document(json.loads(read_bundled(MODEL)), bundled_networks())


def _read_model(path: Path) -> PerformanceModel:
    way_out = "fit it again with `advisor fit`, or delete it to use the one that ships"
    try:
        document = json.loads(path.read_text(), parse_constant=_refuse_constant)
        if document["schema"] != SCHEMA:
            raise ValueError(f"its format is {document['schema']}, not {SCHEMA}")
        if content_id(document) != document["id"]:
            raise ValueError("it is damaged: its content does not match its id")
        return from_document(document, bundled_networks())
    except OSError as error:
        raise DataError(
            "{path} cannot be read ({strerror})", hint=way_out, path=path, strerror=error.strerror
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, UsageError) as error:
        raise DataError(
            "{path} is no performance model ({error})", hint=way_out, path=path, error=error
        ) from error


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"it holds {constant}")


def _pipeline(raw: Mapping[str, Any]) -> Pipeline:
    pipeline = convert(raw, Pipeline)
    others = enumerate(pipeline.other_cpus, 1)
    names = [name for k, cpu in others for name in pipeline.reference.priors_of(cpu, k)]
    if missing := {*PIPELINE_PRIORS, *names} - set(pipeline.parameters):
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    for name, (low, high) in pipeline.measured.items():
        if not (name in FACTS and 0 < low <= high):
            raise ValueError(f"the measured range of {name} is {low} to {high}")
    return pipeline


# The step seconds of an emulated GPU are part of a trial's identity, so fits must not change them: they
# come from the model and the data sheets that ship.


def published_step_seconds(
    network: str, task: Task, precision: Precision, batch_size: int, gpu: str
) -> float:
    """Seconds of one step of a workload on a GPU named as in the catalogue or short (`A100`).

    To four digits, so that all machines agree. `UsageError` for an unknown GPU or network."""
    if is_own_code(network):
        raise UsageError(
            "nobody published how fast {network} is: {gpu} cannot be emulated for it",
            network=network,
            gpu=gpu,
            field="accelerator",
            hint=Message(
                "give {accelerator} cpu, or cuda:{gpu} where one is",
                accelerator=FieldName("accelerator"),
                gpu=gpu,
            ),
        )
    workload = Workload(network=network, task=task, precision=precision, batch_size=batch_size)
    return load_model().published_step_seconds(workload, paced_gpu(gpu))


def paced_gpu(name: str) -> Gpu:
    """The data sheet behind `emulated:<name>`; a short name means the usual card of that name."""
    from advisor.domain.gpu_names import gpus_named  # few answers are about an emulated GPU

    gpus = _gpus()
    result = gpus_named(name, gpus)
    if not result:
        raise unknown_name("GPU", name, gpus)
    return gpus[result[0]]


@cache
def _gpus() -> dict[str, Gpu]:
    import csv
    import io

    rows = csv.DictReader(io.StringIO(read_data_sheets()))
    return {row["name"]: gpu_of_row(row) for row in rows}
