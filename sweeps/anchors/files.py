"""Reads a user's measurements from any file that holds them, with the reasons for rows left out.

Taken are `advisor measure --out` (advisor.anchor/1), `advisor measurements export` and the file
of a campaign (JSON lines both). A row is one step of PyTorch eager on a real GPU, nothing else.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.domain import STEP_SIGMA, Observation, Precision, ScalingObservation, Status, Task, Workload
from advisor.domain.machines import is_positive
from advisor.domain.results import mean_step_seconds
from advisor.errors import UsageError
from advisor.sweeps.anchors.observing import (
    FEWEST_STEPS,
    LONGEST_STEP_SECONDS,
    SCHEMA,
    TOO_LONG,
    WAY_OUT,
    AnchorFile,
    RefusedRow,
    SheetOf,
    gpu_size,
    no_anchor,
    read_measurements,
)
from advisor.sweeps.quality.issues import refusal_in
from advisor.sweeps.quality.rates import runs_error


def read_anchor(path: Path, sheet_of: SheetOf, precision: Precision) -> AnchorFile:
    """The file's rows; a script that does not name its precision ran in `precision`.

    `UsageError` names a file that cannot be read, or is something else.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "cannot read '{path}' ({strerror})", hint=WAY_OUT, path=path, strerror=error.strerror
        ) from error
    document: Any = None
    with suppress(ValueError, RecursionError):  # lines of JSON are no one value
        document = json.loads(content)
    if isinstance(document, dict) and "schema" in document:
        if document["schema"] == SCHEMA:
            return read_document(path, document, sheet_of, precision)
        if isinstance(document["schema"], str):
            raise UsageError(
                "{path} is {schema}, not a measurement", hint=WAY_OUT, path=path, schema=document["schema"]
            )
    return read_measurements(path, content, sheet_of)


# A loop that waits for its loader longer than this measures its loader.
_MOST_WAITING = 0.05
# No step that fits any machine has more; numbers above are damaged, or no floats.
_LARGEST_BATCH = 10**9
_LARGEST_SIDE = 100_000


def read_document(
    path: Path, document: Mapping[str, Any], sheet_of: SheetOf, precision: Precision
) -> AnchorFile:
    """The rows of a document; `UsageError` where none of it can be used."""
    try:
        what, device = document["what"], document["device"]
        scaling = tuple(_scaling(row, document, sheet_of) for row in document.get("scaling", ()))
        if scaling and device["kind"] != "cuda":
            # Their network is real, whatever computed.
            return AnchorFile(path, (), (), scaling=scaling)
        _require_gpu(path, document)
        if what["unit"] not in ("image", "sample"):
            raise no_anchor(path, f"it counts {what['unit']}s, and recommends need images")
        shape = what.get("input_shape")
        if shape is not None and not _is_image(shape):
            raise no_anchor(path, f"its input has the shape {shape}, which is no RGB image")
        rows = [
            _row(f"{path}, run {number}", run, document, sheet_of, precision)
            for number, run in enumerate(document["runs"], 1)
        ]
        captured = document.get("captured") or {}
        if not isinstance(captured, dict) or not isinstance(device["gpu"], str):
            raise TypeError("captured is no table, or gpu no name")
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise no_anchor(path, f"{type(error).__name__}: {error}") from error
    return AnchorFile(
        path,
        _joined(rows, document["runs"]),
        tuple(entry for entry in rows if isinstance(entry, RefusedRow)),
        tuple(shape) if shape else None,
        captured,
        scaling,
    )


def _scaling(row: Mapping[str, Any], document: Mapping[str, Any], sheet_of: SheetOf) -> ScalingObservation:
    device = document["device"]
    on_gpu = device["kind"] == "cuda"
    return ScalingObservation(
        gpu=sheet_of(device["gpu"], **gpu_size(device)) if on_gpu else None,
        backend=str(row["backend"]),
        ranks=row["ranks"],
        nodes=row["nodes"],
        gbit_per_second=row["gbit_per_second"],
        gradient_bytes=row["gradient_bytes"],
        one_step_seconds=mean_step_seconds(row["one_step_seconds"]),
        step_seconds=mean_step_seconds(row["step_seconds"]),
        all_reduce_seconds=statistics.median(row["all_reduce_seconds"]),
    )


def _joined(
    rows: Sequence[Observation | RefusedRow], runs: Sequence[Mapping[str, Any]]
) -> tuple[Observation, ...]:
    """Runs of the same step in several processes as one: what differs between them is its error."""
    groups: dict[Workload, list[tuple[Observation, Sequence[float]]]] = {}
    for row, run in zip(rows, runs, strict=True):
        if isinstance(row, Observation):
            groups.setdefault(row.workload, []).append((row, run["step_seconds"]))
    return tuple(_mean(group) for group in groups.values())


def _mean(group: Sequence[tuple[Observation, Sequence[float]]]) -> Observation:
    first, runs = group[0][0], [run for run, _ in group]
    error = runs_error([steps for _, steps in group])
    peaks = [run.peak_mib for run in runs if run.peak_mib is not None]
    more = f" and {len(runs) - 1} more of it" if len(runs) > 1 else ""
    return replace(
        first,
        seconds=statistics.fmean(run.seconds for run in runs),
        sigma=max(STEP_SIGMA, error.standard_error) if error else STEP_SIGMA,
        peak_mib=max(peaks, default=None),
        origin=first.origin + more,
    )


def _require_gpu(path: Path, document: Mapping[str, Any]) -> None:
    device = document["device"]
    if device["kind"] != "cuda" or not device["gpu"]:
        raise no_anchor(
            path,
            "it was measured on a CPU, and says nothing about GPUs",
            hint="measure on a machine with an NVIDIA GPU, or ask without it",
        )
    if not (device.get("torch") or document["machine"]["versions"].get("torch")):
        raise no_anchor(path, "it does not say that PyTorch ran, and rates mean PyTorch eager")


def _is_image(shape: Any) -> bool:
    return (
        len(shape) == 3
        and shape[0] == 3
        and all(isinstance(n, int) and 0 < n <= _LARGEST_SIDE for n in shape)
    )


def _row(
    origin: str, run: Mapping[str, Any], document: Mapping[str, Any], sheet_of: SheetOf, precision: Precision
) -> Observation | RefusedRow:
    what, is_script = document["what"], document["what"]["kind"] == "script"
    if run["status"] != Status.OK:
        # How a ladder of batch sizes ends is no fault of the file.
        return RefusedRow(origin, f"status {run['status']}", False)
    if run["input"] == "loader" and not is_script:
        return RefusedRow(origin, "its loader's rate, not the network's alone", False)
    if reason := _fault(run, is_script) or refusal_in(run.get("gpu_state", {})):
        return RefusedRow(origin, reason, True)
    seconds = mean_step_seconds(run["step_seconds"])
    if is_script:  # its steps run ahead of its GPU: only its rate over all of them is exact
        seconds = float(run["batch_size"] / run["samples_per_second"])
    if seconds > LONGEST_STEP_SECONDS:
        return RefusedRow(origin, TOO_LONG, True)
    try:
        gpu = sheet_of(document["device"]["gpu"], **gpu_size(document["device"]))
    except UsageError as error:
        return RefusedRow(origin, str(error), True)
    shape = what.get("input_shape")
    return Observation(
        workload=Workload(
            network=str(what.get("name", "")),
            task=Task(run["task"]),
            batch_size=run["batch_size"],
            precision=Precision(run["precision"]) if run["precision"] else precision,
            input="x".join(map(str, shape)) if shape else None,
        ),
        gpu=gpu,
        seconds=seconds,
        peak_mib=run.get("gpu_peak_reserved_mib"),
        origin=origin,
    )


def _fault(run: Mapping[str, Any], is_script: bool) -> str:
    """Why a run cannot be believed; empty where it can."""
    steps, batch, peak = run["step_seconds"], run["batch_size"], run.get("gpu_peak_reserved_mib")
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= _LARGEST_BATCH:
        return f"a batch size is a whole number above 0, not {_short(batch)}"
    if not all(map(is_positive, steps)):
        return "a step takes a finite number of seconds above 0"
    if len(steps) < FEWEST_STEPS:
        return f"{len(steps)} steps are too few, it takes {FEWEST_STEPS}"
    if peak is not None and not is_positive(peak):
        return f"GPU memory is a finite number of MiB above 0, not {_short(peak)}"
    if not is_script:
        return ""
    if not is_positive(run["samples_per_second"]):
        return f"a rate is a finite number above 0, not {_short(run['samples_per_second'])}"
    total = sum(run.get("waited_seconds", ()))
    waited = total / sum(steps) if math.isfinite(total) else 1.0
    if waited > _MOST_WAITING:
        return (
            f"its loop waited {100 * waited:.0f} % of the time for the loader, so the GPU's own "
            "rate is not known; feed it faster, or measure the network with --model"
        )
    return ""


def _short(value: Any) -> str:
    """The value as Python writes it, shortened: a damaged number may have hundreds of digits."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
