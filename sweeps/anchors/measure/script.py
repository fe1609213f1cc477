"""What the hook recorded in a user's own loop, as an anchor document; pure but for this
machine's facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.errors import MeasuringError
from sweeps.anchors.measure.document import LOADER, document

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
