"""Time of each operator of a step, from torch's profiler (standard library only)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_KEPT = 30


def operator_table(averages: Iterable[Any], steps: int, on_gpu: bool) -> list[dict[str, Any]]:
    """The 30 operators with the most self time, per step: on a GPU the time of their kernels, on
    a CPU their own. `averages` are of `key_averages()`; `share` is of all operators' self time."""
    # Kernels are listed beside the operators that started them, whose self time they are.
    name = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    operators = (entry for entry in averages if str(entry.device_type).endswith("CPU"))
    rows = [(entry, float(getattr(entry, name))) for entry in operators]
    total = sum(microseconds for _, microseconds in rows) or 1.0
    rows.sort(key=lambda row: row[1], reverse=True)
    return [
        {
            "name": average.key,
            "calls_per_step": average.count / steps,
            "self_seconds_per_step": microseconds / steps / 1e6,
            "share": microseconds / total,
        }
        for average, microseconds in rows[:_KEPT]
        if microseconds > 0
    ]
