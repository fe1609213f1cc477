"""The answer of `advisor verify`, as JSON-ready values and as a few lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from advisor.domain import Prediction, Verdict, Verification
from advisor.render.blocks import bounds, rate_unit
from advisor.render.document import request_document
from advisor.render.text import WIDTH, interval_text
from advisor.units import format_mib, format_rate

SCHEMA = "advisor.verification/1"
_WORDS = {
    Verdict.PASS: "Reaches the target",
    Verdict.MISSED: "Misses the target",
    Verdict.UNDECIDED: "Undecided",
}


def verification_document(one: Verification) -> dict[str, Any]:
    """JSON-ready values; numbers are not rounded."""
    trial, request = one.measurement.trial, one.request
    return {
        "schema": SCHEMA,
        "request": request_document(request),
        "verdict": str(one.verdict),
        "settles": one.settles,
        "reason": one.reason,
        "instance_type": one.instance.name if one.instance else None,
        "measured": {
            "trial_id": trial.trial_id,
            "status": str(one.measurement.status),
            "throughput": {"lower": one.lower, "median": one.rate, "upper": one.upper},
            "unit": _unit(one),
            "confidence": 0.95,
            "steps": len(one.measurement.step_seconds),
            "batch_size": trial.workload.batch_size,
            "accelerator": trial.accelerator,
            "gpu": one.measurement.environment.get("gpu"),
            "cpu": one.measurement.environment.get("cpu_model"),
            "vcpus": trial.resources.vcpus,
            "memory_mib": trial.resources.memory_mib,
            "disk": trial.resources.disk.type,
            "read_mib_per_second": trial.resources.disk.read_mib_per_second,
            "read_iops": trial.resources.disk.read_iops,
            "cache": str(trial.cache),
            "limited_by": str(one.measurement.limited_by),
        },
        "predicted": _predicted(one.prediction),
        "caveats": list(one.caveats),
        "answer_now": one.answer_now,
    }


def verification_text(one: Verification) -> str:
    """The verdict first, then what was measured, what was predicted, and what to do now."""
    trial = one.measurement.trial
    workload, resources = trial.workload, trial.resources
    what = one.instance.name if one.instance else "this machine"
    stands = "" if one.settles or one.instance is None else " (not settled: see below)"
    held = f"{resources.vcpus:g} vCPUs, {format_mib(resources.memory_mib)} RAM"
    lines = [
        *_wrapped(f"{_WORDS[one.verdict]}: {one.reason}{stands}."),
        "",
        what,
        f"  for         {workload.network} {workload.task}, batch {workload.batch_size}, "
        f"{workload.precision}, at least {format_rate(one.request.target_throughput or 0)} "
        f"{_unit(one)}",
        f"  held to     {held}, disk {resources.disk.type} ({one.measurement.limited_by}); "
        f"{trial.cache} cache, on {trial.accelerator}",
        f"  measured    {_measured(one)}",
        *_compared(one),
        "",
        *_wrapped(f"Now: {one.answer_now}."),
        *(line for caveat in one.caveats for line in _wrapped(f"Note: {caveat}.")),
        f"Stored as trial {trial.trial_id} (`advisor measurements list`).",
    ]
    return "\n".join(lines)


def _unit(one: Verification) -> str:
    return rate_unit(one.request.dataset)


def _measured(one: Verification) -> str:
    if one.rate is None:
        return f"no rate ({one.measurement.status.value.replace('_', ' ')})"
    steps = f"{len(one.measurement.step_seconds)} steps"
    if one.lower is None or one.upper is None:
        return f"{format_rate(one.rate)} {_unit(one)}, {steps}"
    low, high = format_rate(one.lower), format_rate(one.upper)
    return f"{format_rate(one.rate)} {_unit(one)}; 95 % interval {low} to {high}; {steps}"


def _compared(one: Verification) -> list[str]:
    if one.prediction is None:
        return ["  predicted   nothing: no data sheet of this GPU"]
    lines = [f"  predicted   {interval_text(one.prediction, _unit(one))}"]
    if one.rate is not None:
        within = one.prediction.lower <= one.rate <= one.prediction.upper
        off = 100 * (one.rate / one.prediction.median - 1)
        place = "inside" if within else "outside"
        lines.append(f"  so it is    {off:+.0f} % off the median, {place} the interval")
    return lines


def _predicted(prediction: Prediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    return {
        "throughput": bounds(prediction),
        "confidence": prediction.confidence,
        "provenance": str(prediction.provenance),
    }


def _wrapped(text: str) -> Iterable[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")
