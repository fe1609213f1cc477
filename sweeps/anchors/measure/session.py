"""What one network is measured with, and what is known of it so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.domain import Precision, Status, Task
from advisor.domain.steps import typical_step_seconds
from models.zoo.opening import Runnable
from sweeps.anchors.measure.document import Run
from sweeps.worker.stepping import Steps


@dataclass(slots=True, kw_only=True)
class Session:
    """What one network is measured with. `ends_at` is a time.monotonic() moment."""

    network: Runnable
    device: str
    precision: Precision
    data: Path | None
    ends_at: float
    report: Callable[[str], None]
    runs: list[Run] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    operators: dict[str, Any] = field(default_factory=dict)
    stage_rates: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float:
        """Until nothing new is begun."""
        return self.ends_at - time.monotonic()

    def run_of(self, task: Task, source: str, batch_size: int, steps: Steps) -> Run:
        """What steps on batches from `source` gave; the rate is in the network's samples."""
        samples = batch_size * self.network.info.samples_per_row
        return {
            "task": task.value,
            "precision": self.precision.value,
            "input": source,
            "batch_size": batch_size,
            "status": Status.OK.value,
            "samples_per_second": samples / typical_step_seconds(steps.step_seconds),
            "step_seconds": list(steps.step_seconds),
            "warmup_step_seconds": list(steps.warmup_seconds),
            "gpu_peak_allocated_mib": steps.peak_allocated_mib,
            "gpu_peak_reserved_mib": steps.peak_reserved_mib,
            "reason": "",
        }
