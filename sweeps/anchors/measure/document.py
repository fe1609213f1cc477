"""The anchor's words and its assembly from what was measured: pure, without torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from advisor.domain import Task
from advisor.domain.steps import typical_step_seconds
from advisor.errors import MeasuringError
from sweeps.machine.environment import describe_machine, describe_versions

SCHEMA = "advisor.anchor/1"
COMPUTED = (Task.INFERENCE, Task.TRAINING)
SYNTHETIC, LOADER = "synthetic", "loader"
_VERSIONS = ("torch", "torchvision", "numpy", "Pillow", "timm")
# A rate so much below the best one is slower, not noise.
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
    """The document, with this machine's facts; `more` are the optional parts."""
    return {
        "schema": SCHEMA,
        "measured_at": datetime.now(UTC).isoformat(),
        "seconds": seconds,
        "what": dict(what),
        "device": dict(device),
        "machine": {**describe_machine(), "versions": describe_versions(*_VERSIONS)},
        "runs": list(runs),
        **more,
        "warnings": list(warnings),
    }


def measured_runs(runs: Sequence[Run]) -> list[Run]:
    """Those that have a rate."""
    return [run for run in runs if run["samples_per_second"] is not None]


def best_run(runs: Sequence[Run]) -> Run | None:
    """The one with the highest rate; None where none has one."""
    return max(measured_runs(runs), key=lambda run: run["samples_per_second"], default=None)


def goes_on(runs: Sequence[Run], seconds_left: float, least_steps: int) -> bool:
    """Whether the next batch, twice as large, is worth a try: rates still rise, memory has not
    ended, and its fewest steps fit into the time that is left (a step may take twice as long)."""
    if not runs:
        return True
    last = runs[-1]
    if last["samples_per_second"] is None:
        return False
    earlier = best_run(runs[:-1])
    if earlier and last["samples_per_second"] < _SLOWER * earlier["samples_per_second"]:
        return False
    return 2 * typical_step_seconds(last["step_seconds"]) * (least_steps + 1) <= seconds_left


_FEWEST_STEPS = 4
# Rates are exact over all steps; of the raw ones the last so many are kept.
_KEPT_STEPS = 2000


def anchor_of_script(
    command: Sequence[str], recorded: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """The document of the loop that was recorded; `MeasuringError` for too few steps."""
    warnings: list[str] = []
    steps, wall = _counted(recorded, warnings)
    sizes = Counter(int(size) for _, _, size in steps)
    batch_size = sizes.most_common(1)[0][0]
    if not batch_size:
        raise MeasuringError(
            "the batches hold no tensor with a first dimension, so their size is unknown",
            hint="let the loader give tensors, or tuples or dictionaries of them",
        )
    if recorded["device"] == "cpu":
        warnings.append("measured on this CPU, not on a GPU")
    run = _run(recorded, steps, wall, batch_size)
    return document(
        what={"kind": "script", "command": list(command), "unit": "sample"},
        device={
            "kind": recorded["device"],
            "gpu": recorded["gpu"],
            "threads": recorded["threads"],
            "torch": recorded["torch"],
        },
        runs=[run],
        seconds=seconds,
        warnings=warnings,
    )


def _counted(recorded: Mapping[str, Any], warnings: list[str]) -> tuple[list[list[float]], float]:
    """The steps that count and the seconds they took together."""
    counted, warmup = recorded["counted"], recorded["warmup"]
    if len(counted) >= _FEWEST_STEPS:
        return counted, float(recorded["counted_seconds"])
    steps = [*warmup, *counted]
    if len(steps) < _FEWEST_STEPS:
        raise MeasuringError(
            "the script made {count} steps, too few to measure",
            hint="let it run longer",
            count=len(steps),
        )
    warnings.append(f"only {len(steps)} steps: the later half counts; let the script run longer")
    later = steps[len(steps) // 2 :]
    return later, sum(seconds for _, seconds, _ in later)


def _run(
    recorded: Mapping[str, Any], steps: list[list[float]], wall: float, batch_size: int
) -> dict[str, Any]:
    kept = steps[-_KEPT_STEPS:]
    return {
        "task": "training",
        "precision": None,
        "input": LOADER,
        "batch_size": batch_size,
        "status": "ok",
        "samples_per_second": sum(size for _, _, size in steps) / wall,
        "steps": len(steps),
        "step_seconds": [seconds for _, seconds, _ in kept],
        "waited_seconds": [waited for waited, _, _ in kept],
        "warmup_step_seconds": [seconds for _, seconds, _ in recorded["warmup"][-_KEPT_STEPS:]],
        "gpu_peak_allocated_mib": recorded["gpu_peak_allocated_mib"],
        "gpu_peak_reserved_mib": recorded["gpu_peak_reserved_mib"],
        "reason": "",
    }
