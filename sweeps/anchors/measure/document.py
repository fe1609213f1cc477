"""The anchor's words and its assembly from what was measured: pure, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from advisor.domain import Task
from advisor.domain.steps import typical_step_seconds
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
