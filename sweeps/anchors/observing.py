"""Turns a measurement into an observation of its GPU alone, or says why that is impossible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import (
    REPLAYED_FROM,
    STEP_SIGMA,
    Gpu,
    Measurement,
    Observation,
    ScalingObservation,
    Stage,
    Status,
    Task,
    Tf32,
)
from advisor.domain.machines import is_positive
from advisor.errors import UsageError
from advisor.sweeps.formats.files import read_lines
from advisor.sweeps.quality.issues import refusal
from advisor.sweeps.quality.rates import rate_interval, runs_error

SCHEMA = "advisor.anchor/1"
WAY_OUT = "--anchor takes what `advisor measure --out` or `advisor measurements export` wrote"
# Of a run, its first steps say how it started; fewer than these say nothing of how it goes on.
FEWEST_STEPS = 3
# Nobody measures a step of a day: such a number is in another unit, or damaged.
LONGEST_STEP_SECONDS = 86_400.0
TOO_LONG = "a step of more than a day is no measured one; times are in seconds"


class SheetOf(Protocol):
    """Finds the data sheet of a card by the name and size that CUDA reports."""

    def __call__(self, name: str, *, memory_mib: float | None = None, sm_count: int | None = None) -> Gpu:
        """`UsageError` where there is none, and for a slice of a card."""


class RefusedRow(Struct, frozen=True):
    """A row that is no anchor. `is_notable`: worth a word even where other rows are good."""

    origin: str
    reason: str
    is_notable: bool


class AnchorFile(Struct, frozen=True):
    """All of one file. `captured` and `input_shape` describe its network where it says so.

    An observation's network is "" where a script does not name it. `scaling` says what several
    ranks kept of their rate.
    """

    path: Path
    observations: tuple[Observation, ...]
    refused: tuple[RefusedRow, ...]
    input_shape: tuple[int, ...] | None = None
    captured: Mapping[str, Any] = field(default_factory=dict)
    scaling: tuple[ScalingObservation, ...] = ()


def no_anchor(path: Path, why: str, hint: str = WAY_OUT) -> UsageError:
    """A file that cannot be used, in one line with the way out."""
    return UsageError("{path} is no anchor: {why}", hint=hint, path=path, why=why, field="anchor")


_SYNTHETIC = "synthetic"


def read_measurements(path: Path, content: bytes, sheet_of: SheetOf) -> AnchorFile:
    """The measurements in lines of JSON; `UsageError` where there is not one."""
    read = read_lines(content.split(b"\n"))
    if not read.measurements:
        first = next(iter(read.refused), None)
        raise no_anchor(path, f"line {first.line}: {first.reason}" if first else "it is empty")
    result = [observed(measurement, f"{path}, ", sheet_of) for measurement in read.measurements]
    bad = [RefusedRow(f"{path}, line {entry.line}", entry.reason, True) for entry in read.refused]
    return AnchorFile(
        path,
        tuple(entry for entry in result if isinstance(entry, Observation)),
        tuple([entry for entry in result if isinstance(entry, RefusedRow)] + bad),
    )


def observed(row: Measurement, where: str, sheet_of: SheetOf) -> Observation | RefusedRow:
    """The step of PyTorch on a real GPU that was measured; `where` begins its origin."""
    origin = f"{where}trial {row.trial.trial_id}"
    for reason, is_notable in _faults(row):
        return RefusedRow(origin, reason, is_notable)
    seconds, gpu = _step_seconds(row), gpu_of(row)
    assert seconds is not None
    assert gpu is not None
    try:
        sheet = sheet_of(gpu, **gpu_size(row.environment))
    except UsageError as error:
        return RefusedRow(origin, str(error), True)
    peak: Any = row.environment.get("gpu_peak_reserved_mib")
    return Observation(
        workload=replace(row.trial.workload, tf32=_tf32(row)),
        gpu=sheet,
        seconds=seconds,
        sigma=_sigma(row),
        peak_mib=peak if is_positive(peak) else None,
        origin=origin,
    )


def _sigma(row: Measurement) -> float:
    """Standard error of log seconds, of the steps that the GPU's own run had: what runs differ by
    counts, and no step is known better than one that was timed with care."""
    alone = (row.environment.get("stage_runs") or {}).get(Stage.ACCELERATOR.value) or {}
    # Rows of before keep none of these steps: the main run's stand for them.
    error = runs_error([steps]) if (steps := alone.get("step_seconds")) else rate_interval(row)
    return max(STEP_SIGMA, error.standard_error) if error else STEP_SIGMA


def _faults(row: Measurement) -> Iterator[tuple[str, bool]]:
    """Why a measurement says nothing about a GPU, and whether that is worth a word beside good ones."""
    accelerator, workload = row.trial.accelerator, row.trial.workload
    if row.status is not Status.OK:
        yield f"status {row.status}", row.status is Status.CONTAMINATED
    if not accelerator.is_gpu:
        never = ": a GPU that was never there" * accelerator.is_emulated
        yield f"it was measured on {accelerator}, not on a GPU{never}", True
    if REPLAYED_FROM in row.environment:
        yield "it was replayed from a file, not measured", True
    if unknown := row.trial.unknown_settings:
        yield f"it ran with {', '.join(unknown)}, which answers do not assume", True
    if workload.task is Task.PREPROCESSING:
        yield "preprocessing uses no GPU", False
    if row.trial.samples_per_row != 1:
        yield "it counts words, not images or sequences", False
    yield from _faults_of_running(row)


def _faults_of_running(row: Measurement) -> Iterator[tuple[str, bool]]:
    if reason := refusal(row):
        yield reason, True
    if not gpu_of(row):
        yield "it does not say on which GPU", True
    versions = row.environment.get("versions")
    if not (isinstance(versions, dict) and versions.get("torch")):
        yield "it does not say that PyTorch ran, and rates mean PyTorch's", True
    seconds = _step_seconds(row)
    if seconds is None:
        yield "what the network alone takes is not in it", False
    elif seconds > LONGEST_STEP_SECONDS:
        yield TOO_LONG, True
    if len(row.step_seconds) < FEWEST_STEPS:
        yield f"{len(row.step_seconds)} steps are too few, it takes {FEWEST_STEPS}", True


def gpu_of(row: Measurement) -> str | None:
    """The GPU's name as the machine has it."""
    answer: Any = row.environment.get("gpu") or row.trial.plan.get("gpu")
    if isinstance(answer, str):
        return answer
    return row.trial.resources.gpu.name if row.trial.resources.gpu else None


def gpu_size(facts: Mapping[str, Any]) -> dict[str, Any]:
    """MiB and multiprocessors as the driver had them; rows of before say less."""
    memory_mib, sm_count = facts.get("gpu_memory_mib"), facts.get("gpu_sm_count")
    return {
        "memory_mib": memory_mib if is_positive(memory_mib) else None,
        "sm_count": sm_count if isinstance(sm_count, int) else None,
    }


def _tf32(row: Measurement) -> Tf32:
    """TF32 as torch was set, or as the driver was told, where the row has it; else as planned."""
    environment: Mapping[str, Any] = row.environment
    if environment.get("variables", {}).get("NVIDIA_TF32_OVERRIDE") == "0":
        return Tf32.OFF
    if environment.get("float32_matmul_precision") in ("high", "medium"):
        return Tf32.ON
    if environment.get("tf32_convolutions") is False:
        return Tf32.OFF
    return row.trial.workload.tf32


def _step_seconds(row: Measurement) -> float | None:
    """Seconds of a step without the input pipeline: from the stage's own run, else from all steps of one
    GPU on a batch that nothing loads."""
    trial, batch = row.trial, row.trial.samples_per_step
    rate = row.stage_rates.get(Stage.ACCELERATOR.value)
    if rate is None and trial.processes == 1 and trial.workload.dataset.storage_format == _SYNTHETIC:
        rate = row.throughput_samples_per_second
    return batch / rate if rate and is_positive(rate) else None
