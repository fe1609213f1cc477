"""The answer of `advisor verify`, as JSON-ready values and as a few lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from advisor.domain import Prediction, Trial, Verdict, Verification
from advisor.render.blocks import bounds, rate_unit
from advisor.render.document import request_document
from advisor.render.text import WIDTH, throughput_text
from advisor.units import format_counted, format_mib, format_rate, format_target

SCHEMA = "advisor.verification/1"
_WORDS = {
    Verdict.PASS: "Reaches the target",
    Verdict.MISSED: "Misses the target",
    Verdict.UNDECIDED: "Undecided",
}


def verification_document(verification: Verification) -> dict[str, Any]:
    """JSON-ready values; numbers are not rounded."""
    trial, request = verification.measurement.trial, verification.request
    return {
        "schema": SCHEMA,
        "request": request_document(request),
        "verdict": str(verification.verdict),
        "settles": verification.settles,
        "reason": verification.reason,
        "instance_type": verification.instance.name if verification.instance else None,
        "measured": {
            "trial_id": trial.trial_id,
            "status": str(verification.measurement.status),
            "throughput": {
                "lower": verification.lower,
                "median": verification.rate,
                "upper": verification.upper,
            },
            "unit": _unit(verification),
            "confidence": 0.95,
            "steps": len(verification.measurement.step_seconds),
            "runs": len(verification.measurement.run_steps),
            "batch_size": trial.workload.batch_size,
            "accelerator": str(trial.accelerator),
            "processes": trial.processes,
            "gpu": verification.measurement.environment.get("gpu"),
            "cpu": verification.measurement.environment.get("cpu_model"),
            "vcpus": trial.resources.vcpus,
            "memory_mib": trial.resources.memory_mib,
            "disk": trial.resources.disk.type,
            "read_mib_per_second": trial.resources.disk.read_mib_per_second,
            "read_iops": trial.resources.disk.read_iops,
            "cache": str(trial.cache),
            "limited_by": str(verification.measurement.limited_by),
        },
        "predicted": _predicted(verification.prediction),
        "caveats": list(verification.caveats),
        "answer_now": verification.answer_now,
    }


def verification_text(verification: Verification) -> str:
    """The verdict first, then what was measured, what was predicted, and what to do now."""
    trial = verification.measurement.trial
    workload, resources = trial.workload, trial.resources
    what = verification.instance.name if verification.instance else "this machine"
    stands = "" if verification.settles or verification.instance is None else " (not settled: see below)"
    held = f"{resources.vcpus:g} vCPUs, {format_mib(resources.memory_mib)} RAM"
    lines = [
        *_wrapped(f"{_WORDS[verification.verdict]}: {verification.reason}{stands}."),
        "",
        what,
        f"  for         {workload.network} {workload.task}, batch {workload.batch_size}, "
        f"{workload.precision}, "
        f"at least {format_target(verification.request.target_throughput or 0)} "
        f"{_unit(verification)}",
        f"  held to     {held}, disk {resources.disk.type} "
        f"({verification.measurement.limited_by}); {trial.cache} cache, on {_computes_on(trial)}",
        f"  measured    {_measured(verification)}",
        *_compared(verification),
        "",
        *_wrapped(f"Now: {verification.answer_now}."),
        *(line for caveat in verification.caveats for line in _wrapped(f"Note: {caveat}.")),
        f"Stored as trial {trial.trial_id} (`advisor measurements list`).",
    ]
    return "\n".join(lines)


def _computes_on(trial: Trial) -> str:
    """'4 x cuda': a process, and a batch in each step, for each."""
    several = f"{trial.processes} x " if trial.processes > 1 else ""
    return f"{several}{trial.accelerator}"


def _unit(verification: Verification) -> str:
    return rate_unit(verification.request.dataset)


def _measured(verification: Verification) -> str:
    if verification.rate is None:
        return f"no rate ({verification.measurement.status.value.replace('_', ' ')})"
    runs = verification.measurement.run_steps
    steps = f"{sum(map(len, runs))} steps in {format_counted(len(runs), 'run')}"
    if verification.lower is None or verification.upper is None:
        return f"{format_rate(verification.rate)} {_unit(verification)}, {steps}"
    low, high = format_rate(verification.lower), format_rate(verification.upper)
    rate = f"{format_rate(verification.rate)} {_unit(verification)}"
    return f"{rate}; 95 % interval {low} to {high}; {steps}"


def _compared(verification: Verification) -> list[str]:
    if verification.prediction is None:
        return ["  predicted   nothing: no data sheet of this GPU"]
    prediction = verification.prediction
    rates = throughput_text(prediction, _unit(verification))
    lines = [f"  predicted   {rates}"]
    if verification.rate is not None:
        within = prediction.lower <= verification.rate <= prediction.upper
        off = 100 * (verification.rate / prediction.median - 1)
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
