"""Builds an anchor's document from runs, or from the recorded steps of a training script; without torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.domain import Task
from advisor.domain.results import mean_step_seconds, stall_share
from advisor.errors import MeasuringError
from advisor.sweeps.hook import SCHEMA as STEPS_SCHEMA
from advisor.sweeps.hook import unfinished
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.quality.issues import refusal_in
from advisor.sweeps.quality.rates import count_warmup_steps

# Fewer steps of a loop say nothing about its pace.
FEWEST_STEPS = 4
_SCHEMAS = (STEPS_SCHEMA, "advisor.steps/1")


class RecordedSteps(Struct):
    """The steps of a training script: `rows` of [seconds waited for the loader, seconds, samples].

    Each of the `epochs` has the number of its first row, the seconds since the previous epoch, and the
    seconds until its first batch (part of its first row). `facts` are about torch and the device."""

    rows: list[list[float]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """The number of loader processes, by which step times may be periodic."""
        return max(1, self.facts.get("loader_workers") or 1)

    @property
    def warmup(self) -> int:
        """The number of warm-up rows, at least the first, in which torch allocates and chooses algorithms."""
        seconds = [seconds for _, seconds, _ in self.rows]
        return max(1, count_warmup_steps(seconds, self.period, cold=True))


def read_steps(path: Path) -> RecordedSteps:
    """The steps in a file, up to a line that was cut when its script was killed.

    Raises `MeasuringError` if another version of the hook wrote the file."""
    result = RecordedSteps()
    for line in path.read_text().splitlines():
        try:
            news = json.loads(line)
        except ValueError:
            break
        schema = news.pop("schema", STEPS_SCHEMA)
        if schema not in _SCHEMAS:
            raise MeasuringError(
                f"the script's steps have the format {schema}, not {STEPS_SCHEMA}",
                hint="let it use the hook of this version",
            )
        for part in ("warmup", "counted", "steps"):
            result.rows += news.pop(part, ())
        result.epochs += news.pop("epochs", ())
        result.facts |= news
    return result


def gpu_uuid(path: Path) -> str | None:
    """The UUID of the script's GPU, read from its growing file: '' for no GPU, None if not yet known."""
    file = path if path.exists() else unfinished(path)
    try:
        with file.open() as lines:
            next(lines)
            return str(json.loads(next(lines)).get("gpu_uuid", ""))
    except (OSError, StopIteration, ValueError):
        return None


SCHEMA = "advisor.anchor/1"
COMPUTED = (Task.INFERENCE, Task.TRAINING)
SYNTHETIC, LOADER = "synthetic", "loader"
_VERSIONS = ("torch", "torchvision", "numpy", "Pillow", "timm")
# A rate below this share of the best one is slower, not noise.
_SLOWER = 0.97

Run = dict[str, Any]


def document(
    *,
    what: Mapping[str, Any],
    device: Mapping[str, Any],
    runs: Sequence[Run],
    seconds: float,
    warnings: Sequence[str],
    **more: Any,
) -> dict[str, Any]:
    """The document `advisor.anchor/1` with this machine's facts; `more` are optional parts."""
    # The reasons, each once, why no answer will use some of the runs.
    reasons = dict.fromkeys(refusal_in(run.get("gpu_state", {})) for run in runs)
    return {
        "schema": SCHEMA,
        "measured_at": datetime.now(UTC).isoformat(),
        "seconds": seconds,
        "what": dict(what),
        "device": dict(device),
        "machine": {**describe_machine(), "versions": describe_versions(*_VERSIONS)},
        "runs": [{"process": 0, **run} for run in runs],
        **more,
        "warnings": [*warnings, *(f"no anchor: {reason}; measure again" for reason in reasons if reason)],
    }


def measured_runs(runs: Sequence[Run]) -> list[Run]:
    """The runs that have a rate."""
    return [run for run in runs if run["samples_per_second"] is not None]


def best_run(runs: Sequence[Run]) -> Run | None:
    """The run with the highest rate; None if no run has a rate."""
    return max(measured_runs(runs), key=lambda run: run["samples_per_second"], default=None)


def best_batches(runs: Sequence[Run]) -> dict[str, int]:
    """The batch size of the network's best run, by task."""
    synthetic = [run for run in runs if run["input"] == SYNTHETIC]
    tasks = dict.fromkeys(run["task"] for run in synthetic)
    best = {task: best_run([run for run in synthetic if run["task"] == task]) for task in tasks}
    return {task: run["batch_size"] for task, run in best.items() if run}


def add_runs(document: dict[str, Any], again: Mapping[str, Any]) -> None:
    """Add the runs of another process on the same machine to a document."""
    number = 1 + max(run["process"] for run in document["runs"])
    document["runs"] += [run | {"process": number} for run in again["runs"]]
    document["seconds"] += again["seconds"]
    document["warnings"] += [warning for warning in again["warnings"] if warning not in document["warnings"]]


def goes_on(runs: Sequence[Run], seconds_left: float, least_steps: int) -> bool:
    """True if to try the next batch, twice as large: rates still rise, memory sufficed, and `least_steps`
    steps of twice the duration fit into the remaining time."""
    if not runs:
        return True
    last = runs[-1]
    if last["samples_per_second"] is None:
        return False
    earlier = best_run(runs[:-1])
    if earlier and last["samples_per_second"] < _SLOWER * earlier["samples_per_second"]:
        return False
    return 2 * mean_step_seconds(last["step_seconds"]) * (least_steps + 1) <= seconds_left


# Fewer steps bring a warning.
_ENOUGH_STEPS = 20
# Rates use all steps, but a document keeps only so many of the last step times.
_KEPT_STEPS = 2000


def anchor_of_script(
    command: Sequence[str],
    recorded: Sequence[RecordedSteps],
    seconds: float,
    warnings: Sequence[str] = (),
    what: Mapping[str, Any] = {},
    ran: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """The document of a training loop that was recorded once or more. Raises `MeasuringError` for too few
    steps. `what` and `ran` add known facts: about the network, and about its runs (task, precision)."""
    warnings = list(warnings)
    runs = [{"process": n, **_run(run, warnings), **ran} for n, run in enumerate(recorded)]
    facts = recorded[0].facts
    if facts["device"] == "cpu":
        warnings.append("measured on this CPU, not on a GPU: no answer takes it for an anchor")
    if reason := facts.get("no_profile"):
        warnings.append(f"no operation profile: {reason}")
    operators = {runs[0]["task"]: facts["operators"]} if facts.get("operators") else {}
    size: dict[str, Any] = {name: facts[name] for name in ("gpu_memory_mib", "gpu_sm_count") if name in facts}
    return document(
        what={"kind": "script", "command": list(command), "unit": "sample", **what},
        device={
            "kind": facts["device"],
            "gpu": facts["gpu"],
            "threads": facts["threads"],
            "torch": facts["torch"],
            **size,
        },
        runs=runs,
        seconds=seconds,
        warnings=warnings,
        operators=operators,
    )


def _run(recorded: RecordedSteps, warnings: list[str]) -> Run:
    rows, facts = recorded.rows, recorded.facts
    if len(rows) < FEWEST_STEPS:
        raise MeasuringError(
            f"the script made {len(rows)} steps, too few to measure", hint="let it run longer"
        )
    batch_size = Counter(int(samples) for _, _, samples in rows).most_common(1)[0][0]
    if not batch_size:
        raise MeasuringError(
            "the batches hold no tensor with a first dimension, so their size is unknown",
            hint="let the loader give tensors, or tuples or dictionaries of them",
        )
    if len(rows) < _ENOUGH_STEPS:
        warnings.append(f"only {len(rows)} steps: let the script run longer")
    counted = rows[recorded.warmup :]
    kept = counted[-_KEPT_STEPS:]
    return {
        "task": "training",
        "precision": None,
        "input": LOADER,
        "batch_size": batch_size,
        "status": "ok",
        "samples_per_second": sum(row[2] for row in counted) / sum(row[1] for row in counted),
        "stall_share": stall_share([seconds for _, seconds, _ in counted], recorded.period),
        "steps": len(counted),
        "step_seconds": [seconds for _, seconds, _ in kept],
        "waited_seconds": [waited for waited, _, _ in kept],
        "warmup_step_seconds": [seconds for _, seconds, _ in rows[: recorded.warmup]],
        "gaps_seconds": [epoch["gap_seconds"] for epoch in recorded.epochs[1:]],
        "loader_start_seconds": [epoch["loader_start_seconds"] for epoch in recorded.epochs],
        "gpu_peak_allocated_mib": facts["gpu_peak_allocated_mib"],
        "gpu_peak_reserved_mib": facts["gpu_peak_reserved_mib"],
        "gpu_state": facts.get("gpu_state", {}),
        "reason": "",
    }
