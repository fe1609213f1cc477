"""Rows of `advisor measurements export` and of campaigns that can be anchors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Status, Task
from advisor.domain.checks import is_positive
from sweeps.anchors import (
    FEWEST_STEPS,
    LONGEST_STEP_SECONDS,
    TOO_LONG,
    AnchorFile,
    AnchorRow,
    RefusedRow,
    no_anchor,
)
from sweeps.importing import Refused, read_lines

_SYNTHETIC = "synthetic"


def read_measurements(path: Path, content: bytes) -> AnchorFile:
    """The measurements in lines of JSON; `UsageError` where there is not one."""
    read = read_lines(content.split(b"\n"))
    if not read.measurements:
        raise no_anchor(path, _first(read.refused))
    found = [_row(path, measurement) for measurement in read.measurements]
    bad = [RefusedRow(f"{path}, line {one.line}", one.reason, True) for one in read.refused]
    return AnchorFile(
        path,
        tuple(one for one in found if isinstance(one, AnchorRow)),
        tuple([one for one in found if isinstance(one, RefusedRow)] + bad),
    )


def _first(refused: tuple[Refused, ...]) -> str:
    return f"line {refused[0].line}: {refused[0].reason}" if refused else "it is empty"


def _row(path: Path, row: Measurement) -> AnchorRow | RefusedRow:
    workload = row.trial.workload
    origin = f"{path}, trial {row.trial.trial_id}"
    for reason, is_told in _faults(row):
        return RefusedRow(origin, reason, is_told)
    seconds, gpu = _step_seconds(row), gpu_of(row)
    assert seconds is not None
    assert gpu is not None
    peak: Any = row.environment.get("gpu_peak_reserved_mib")
    return AnchorRow(
        network=workload.network,
        task=workload.task,
        precision=workload.precision,
        batch_size=workload.batch_size,
        step_seconds=seconds,
        gpu_name=gpu,
        peak_mib=peak if is_positive(peak) else None,
        origin=origin,
    )


def _faults(row: Measurement) -> Iterator[tuple[str, bool]]:
    """Why a measurement is no anchor, and whether that is worth a word beside good ones."""
    accelerator, workload = row.trial.accelerator, row.trial.workload
    if row.status is not Status.OK:
        yield f"status {row.status}", row.status is Status.CONTAMINATED
    if accelerator != "cuda":
        never = ": a GPU that was never there" * accelerator.startswith("emulated:")
        yield f"it was measured on {accelerator}, not on a GPU{never}", True
    if workload.task is Task.PREPROCESSING:
        yield "preprocessing uses no GPU", False
    if row.trial.samples_per_step != workload.batch_size:
        yield "it counts words, and recommends need images", False
    yield from _faults_of_running(row)


def _faults_of_running(row: Measurement) -> Iterator[tuple[str, bool]]:
    if not gpu_of(row):
        yield "it does not say on which GPU", True
    versions = row.environment.get("versions")
    if not (isinstance(versions, dict) and versions.get("torch")):
        yield "it does not say that PyTorch ran, and rates mean PyTorch eager", True
    seconds = _step_seconds(row)
    if seconds is None:
        yield "what the network alone takes is not in it", False
    elif seconds > LONGEST_STEP_SECONDS:
        yield TOO_LONG, True
    if len(row.step_seconds) < FEWEST_STEPS:
        yield f"{len(row.step_seconds)} steps are too few, it takes {FEWEST_STEPS}", True


def gpu_of(row: Measurement) -> str | None:
    """The GPU's name as the machine told it."""
    told: Any = row.environment.get("gpu") or row.trial.plan.get("gpu")
    if isinstance(told, str):
        return told
    return row.trial.resources.gpu.name if row.trial.resources.gpu else None


def _step_seconds(row: Measurement) -> float | None:
    """Of a step without the input pipeline: all of a synthetic one, else what the stage's own
    run says."""
    batch = row.trial.samples_per_step
    if row.trial.workload.dataset.storage_format == _SYNTHETIC:
        rate = row.throughput_samples_per_second
    else:
        rate = row.stage_rates.get("accelerator")
    return batch / rate if rate else None
