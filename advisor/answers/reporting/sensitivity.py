"""What one more of each resource brings, and after how much of it nothing more is to be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.answers.reporting.curving import Curves, flat_after
from advisor.answers.reporting.subject import Subject


def sensitivity(
    subject: Subject, explanation: Mapping[str, Any] | None, lines: Curves
) -> list[dict[str, Any]]:
    """The explanation's gains, of all instances together, each with what the spec has of it and
    the amount after which the curve is flat (null: it still rises at its end, or has none)."""
    if explanation is None:
        return []
    flat = {
        "vcpus": flat_after(lines.vcpus, [one.instance.vcpus for one in lines.vcpus]),
        "memory": flat_after(lines.memory, [one.instance.memory_mib for one in lines.memory]),
    }
    has = _has(subject)
    return [
        {
            "resource": gain["resource"],
            "step": gain["step"],
            "has": has[gain["resource"]][0],
            "unit": has[gain["resource"]][1],
            "samples_per_second": subject.machines * gain["samples_per_second"],
            "percent": gain["percent"],
            "bottleneck": gain["bottleneck"],
            "flat_after": flat.get(gain["resource"]),
        }
        for gain in explanation["gains"]
    ]


def _has(subject: Subject) -> dict[str, tuple[float | None, str]]:
    """Of one instance; None where nothing limits it."""
    instance, rate = subject.instance, subject.one.spec.disk.rate
    return {
        "vcpus": (instance.vcpus, "vcpus"),
        "memory": (instance.memory_mib, "mib"),
        "disk_throughput": (rate.read_mib_per_second, "mib_per_second"),
        "disk_iops": (rate.read_iops, "iops"),
        "batch_size": (subject.one.workload.batch_size, "samples"),
    }
