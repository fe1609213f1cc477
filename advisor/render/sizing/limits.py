"""What else was asked, and what it comes to: limits, a whole run, and a batch's latency.

A report stands alone: who pays must read that a training is a run of 26 hours with a limit of 72,
not a machine for a month. All numbers are the document's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import plain
from advisor.units import ceil_significant, format_hours, format_mib, format_usd

Document = Mapping[str, Any]

# How each field of a request is told; a field that is left out, or as it is anyway, is not.
_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "precision": str,
    "stack": str,
    "memory_format": str,
    "tf32": str,
    "input": str,
    "batch_size": plain,
    "epochs": lambda value: f"{value:,.12g}",
    "samples": lambda value: f"{value:,.12g}",
    "max_hours": plain,
    "max_first_epoch_hours": plain,
    "max_run_usd": format_usd,
    "max_usd_per_hour": format_usd,
    "max_latency_ms": plain,
    "gpus": ", ".join,
    "min_gpu_memory_mib": format_mib,
    "max_gpu_memory_mib": format_mib,
    "compute_capability": lambda value: _range(value, plain),
    "vcpus": lambda value: _range(value, plain),
    "memory_mib": lambda value: _range(value, format_mib),
    "accelerated_only": str,
    "allow_extrapolation": str,
    "max_gpus": plain,
    "max_count": plain,
    "disk": str,
    "disk_types": ", ".join,
    "vcpu_quota": lambda value: ", ".join(f"{one}={plain(most)}" for one, most in value.items()),
}
_USUAL = {
    "precision": "fp32",
    "stack": "eager",
    "memory_format": "contiguous",
    "tf32": "convolutions",
    "max_count": 1,
}


def limits_sentence(section: Document, t: Texts) -> str:
    """'Also: amp; 90 epochs; within 72 hours.'; empty where nothing more was asked."""
    request = section["recommendation"]["request"]
    limits = [
        t(f"limit.{field}", value=write(request[field]))
        for field, write in _FIELDS.items()
        if request.get(field) and request[field] != _USUAL.get(field)
    ]
    return t("limits", limits="; ".join(limits)) if limits else ""


def outcome_sentences(section: Document, t: Texts) -> Iterator[str]:
    """What the spec makes of a run, or of a limit of latency, where one was asked for."""
    answer = section["recommendation"]
    spec = answer["recommendation"] or answer["nearest"]
    if spec is None:
        return
    run, latency = spec.get("run"), spec.get("latency")
    if run:
        yield _bounded(("run.time", "run.time_unsure"), run["hours"], format_hours, t)
    if run and run["usd"]:
        yield _bounded(("run.cost", "run.cost_unsure"), run["usd"], _usd, t)
    if latency and answer["request"]["max_latency_ms"]:
        yield t(
            "latency.told",
            median=plain(ceil_significant(latency["p50_ms"])),
            p99=plain(ceil_significant(latency["p99_ms"])),
        )


def _bounded(keys: tuple[str, str], span: Document, write: Any, t: Texts) -> str:
    """The median and the upper bound, which is rounded up; none is known where it is null."""
    median = write(span["median"])
    if span["upper"] is None:
        return t(keys[1], median=median)
    return t(keys[0], median=median, upper=write(span["upper"], up=True))


def _usd(usd: float, *, up: bool = False) -> str:
    return format_usd(ceil_significant(usd) if up else usd)


def _range(limits: Document, tell: Any) -> str:
    """'8', '4..16', '32 GiB..': as it is asked for."""
    least, most = (None if one is None else tell(one) for one in (limits["least"], limits["most"]))
    return str(least) if least == most else f"{least or ''}..{most or ''}"
