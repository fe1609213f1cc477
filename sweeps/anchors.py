"""Reads measurements of users' code: observations of the GPU alone, and why other rows are refused.

Files come from `advisor measure --out` (advisor.anchor/1), `advisor measurements export` or a campaign (both
JSON lines). A row is accepted only if it timed a step of PyTorch eager on a real GPU."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
    Precision,
    ScalingObservation,
    Stage,
    Status,
    Task,
    Tf32,
    Workload,
)
from advisor.domain.machines import is_positive
from advisor.domain.results import mean_step_seconds
from advisor.errors import UsageError
from advisor.files import system_errors
from advisor.sweeps.formats import read_lines
from advisor.sweeps.quality.issues import refusal, refusal_in
from advisor.sweeps.quality.rates import rate_interval, runs_error

SCHEMA = "advisor.anchor/1"
WAY_OUT = "--anchor takes what `advisor measure --out` or `advisor measurements export` wrote"
# The first steps of a run show only its start: with fewer steps than these its pace is unknown.
FEWEST_STEPS = 3
# No real step lasts a day: such a number is in another unit, or damaged.
LONGEST_STEP_SECONDS = 86_400.0
TOO_LONG = "a step of more than a day is no measured one; times are in seconds"


class SheetOf(Protocol):
    """Finds the data sheet of a card by the name and size that CUDA reports."""

    def __call__(self, name: str, *, memory_mib: float | None = None, sm_count: int | None = None) -> Gpu:
        """Returns the sheet. Raises `UsageError` if there is none, or the GPU is a slice of a card."""


class RefusedRow(Struct, frozen=True):
    """A row that is no anchor. `is_notable`: users should hear of it even if other rows are good."""

    origin: str
    reason: str
    is_notable: bool


class AnchorFile(Struct, frozen=True):
    """The rows of one file. `captured` and `input_shape` describe its network, if the file does.

    The network of an observation is "" if the script does not name it. `scaling` has the measured rates of
    several ranks."""

    path: Path
    observations: tuple[Observation, ...]
    refused: tuple[RefusedRow, ...]
    input_shape: tuple[int, ...] | None = None
    captured: Mapping[str, Any] = field(default_factory=dict)
    scaling: tuple[ScalingObservation, ...] = ()


def no_anchor(path: Path, why: str, hint: str = WAY_OUT) -> UsageError:
    """The error for a file that cannot be used: the reason in one line, and a hint."""
    return UsageError(f"{path} is no anchor: {why}", hint=hint, field="anchor")


_SYNTHETIC = "synthetic"


def _read_measurements(path: Path, content: bytes, sheet_of: SheetOf) -> AnchorFile:
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
    """The observation in a measurement, or why it is refused; `where` is the prefix of its origin."""
    origin = f"{where}trial {row.trial.trial_id}"
    if fault := next(_faults(row), None):
        return RefusedRow(origin, *fault)
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
    """Standard error of the log of a step's seconds, from the run of the GPU stage alone. It includes the
    spread between runs, and is never below the error of a carefully timed step."""
    alone = (row.environment.get("stage_runs") or {}).get(Stage.ACCELERATOR.value) or {}
    # Older rows lack the steps of that run: the main run's replace them.
    error = runs_error([steps]) if (steps := alone.get("step_seconds")) else rate_interval(row)
    return max(STEP_SIGMA, error.standard_error) if error else STEP_SIGMA


def _faults(row: Measurement) -> Iterator[tuple[str, bool]]:
    """Reasons why a measurement says nothing about a GPU, each with its `is_notable`."""
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
    yield from _run_faults(row)


def _run_faults(row: Measurement) -> Iterator[tuple[str, bool]]:
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
    """The GPU's name as the machine reports it."""
    answer: Any = row.environment.get("gpu") or row.trial.plan.get("gpu")
    if isinstance(answer, str):
        return answer
    return row.trial.resources.gpu.name if row.trial.resources.gpu else None


def gpu_size(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Memory (MiB) and multiprocessors as the driver reports them; None where an older row lacks them."""
    memory_mib, sm_count = facts.get("gpu_memory_mib"), facts.get("gpu_sm_count")
    return {
        "memory_mib": memory_mib if is_positive(memory_mib) else None,
        "sm_count": sm_count if isinstance(sm_count, int) else None,
    }


def _tf32(row: Measurement) -> Tf32:
    """The TF32 setting of the driver's variable or of torch, where the row has it; else the planned one."""
    environment: Mapping[str, Any] = row.environment
    if environment.get("variables", {}).get("NVIDIA_TF32_OVERRIDE") == "0":
        return Tf32.OFF
    if environment.get("float32_matmul_precision") in ("high", "medium"):
        return Tf32.ON
    if environment.get("tf32_convolutions") is False:
        return Tf32.OFF
    return row.trial.workload.tf32


def _step_seconds(row: Measurement) -> float | None:
    """Seconds of a step without an input pipeline, from the stage's own run or from synthetic data."""
    trial, batch = row.trial, row.trial.samples_per_step
    rate = row.stage_rates.get(Stage.ACCELERATOR.value)
    if rate is None and trial.processes == 1 and trial.workload.dataset.storage_format == _SYNTHETIC:
        rate = row.throughput_samples_per_second
    return batch / rate if rate and is_positive(rate) else None


def read_anchor(path: Path, sheet_of: SheetOf, precision: Precision) -> AnchorFile:
    """The rows of a file; a script that does not name its precision is taken to have run in `precision`.

    Raises `UsageError` for a file that cannot be read or is no measurement."""
    with system_errors(UsageError, f"cannot read '{path}'", hint=WAY_OUT):
        content = path.read_bytes()
    document: Any = None
    with suppress(ValueError, RecursionError):  # JSON lines are not one JSON value
        document = json.loads(content)
    if isinstance(document, dict) and "schema" in document:
        if document["schema"] == SCHEMA:
            return _read_document(path, document, sheet_of, precision)
        if isinstance(document["schema"], str):
            raise UsageError(f"{path} is {document['schema']}, not a measurement", hint=WAY_OUT)
    return _read_measurements(path, content, sheet_of)


# The largest share of a loop's time spent waiting for its loader; above it, the loader was measured.
_MOST_WAITING = 0.05
# No machine fits larger steps: larger numbers are damaged.
_LARGEST_BATCH = 10**9
_LARGEST_SIDE = 100_000


def _read_document(
    path: Path, document: Mapping[str, Any], sheet_of: SheetOf, precision: Precision
) -> AnchorFile:
    try:
        what, device = document["what"], document["device"]
        scaling = tuple(_scaling(row, document, sheet_of) for row in document.get("scaling", ()))
        if scaling and device["kind"] != "cuda":
            # The network between the ranks is real even if CPUs computed.
            return AnchorFile(path, (), (), scaling=scaling)
        if device["kind"] != "cuda" or not device["gpu"]:
            raise no_anchor(
                path,
                "it was measured on a CPU, and says nothing about GPUs",
                hint="measure on a machine with an NVIDIA GPU, or ask without it",
            )
        if not (device.get("torch") or document["machine"]["versions"].get("torch")):
            raise no_anchor(path, "it does not say that PyTorch ran, and rates mean PyTorch eager")
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
    refused = tuple(entry for entry in rows if isinstance(entry, RefusedRow))
    input_shape = tuple(shape) if shape else None
    return AnchorFile(path, _joined(rows, document["runs"]), refused, input_shape, captured, scaling)


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
    """The observations, with runs of one workload joined: the spread between runs sets the error."""
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
        # A series of growing batch sizes ends with a run that fails: no fault of the file.
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
    steps, batch, peak = run["step_seconds"], run["batch_size"], run.get("gpu_peak_reserved_mib")
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= _LARGEST_BATCH:
        return f"a batch size is a whole number above 0, not {repr(batch)[:40]}"
    if not all(map(is_positive, steps)):
        return "a step takes a finite number of seconds above 0"
    if len(steps) < FEWEST_STEPS:
        return f"{len(steps)} steps are too few, it takes {FEWEST_STEPS}"
    if peak is not None and not is_positive(peak):
        return f"GPU memory is a finite number of MiB above 0, not {repr(peak)[:40]}"
    if not is_script:
        return ""
    if not is_positive(run["samples_per_second"]):
        return f"a rate is a finite number above 0, not {repr(run['samples_per_second'])[:40]}"
    total = sum(run.get("waited_seconds", ()))
    waited = total / sum(steps) if math.isfinite(total) else 1.0
    if waited > _MOST_WAITING:
        return (
            f"its loop waited {100 * waited:.0f} % of the time for the loader, so the GPU's own "
            "rate is not known; feed it faster, or measure the network with --model"
        )
    return ""
