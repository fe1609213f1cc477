"""Constraints of a request as their options take them: what is told can be typed."""

from __future__ import annotations

from advisor.domain import Request
from advisor.units import format_range

_GIB = 1024


def vcpus_text(request: Request) -> str | None:
    """What `--vcpus` takes; None where it is left out."""
    return format_range(request.vcpus, "{:g}".format) if request.vcpus.limits else None


def ram_text(request: Request) -> str | None:
    """What `--memory` takes; None where it is left out."""
    return format_range(request.memory_mib, _size) if request.memory_mib.limits else None


def gpu_text(request: Request) -> str | None:
    """What `--gpu` takes; None where it is left out."""
    least, most = request.min_gpu_memory_mib, request.max_gpu_memory_mib
    parts = list(request.gpus)
    if least is not None or most is not None:
        parts.append("..".join("" if end is None else _size(end) for end in (least, most)))
    if request.compute_capability.limits:
        parts.append("cc" + format_range(request.compute_capability, "{:.1f}".format))
    return ",".join(parts) or None


def disk_text(request: Request) -> str | None:
    """What `--disk` takes; None where it is left out."""
    if request.disk is not None:
        return str(request.disk)
    return ",".join(request.disk_types) or None


def quota_text(request: Request) -> str | None:
    """What `--quota` takes; None where it is left out."""
    return ",".join(f"{code}={vcpus:g}" for code, vcpus in request.vcpu_quota) or None


def _size(mib: float) -> str:
    gib = mib / _GIB
    return f"{gib:g}GiB" if float(f"{gib:g}") == gib else f"{mib:.10g}MiB"
