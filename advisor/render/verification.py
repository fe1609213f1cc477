"""Writes the answers of `advisor verify`, about networks and endpoints, as JSON-ready values and as text."""

from __future__ import annotations

from typing import Any

from advisor.domain import Verdict, Verification
from advisor.domain.verification import Criterion, ServingVerification, p99_of
from advisor.messages import format_counted, format_mib, format_rate, format_target, format_usd
from advisor.questions.reading import question_document
from advisor.render.records import bounds, fields, rate_unit
from advisor.render.text import folded, table, throughput_message

SCHEMA = "advisor.verification/1"
_WORDS = {
    Verdict.PASS: "Reaches the target",
    Verdict.MISSED: "Misses the target",
    Verdict.UNDECIDED: "Undecided",
}


def verification_document(verification: Verification) -> dict[str, Any]:
    """Return JSON-ready values; numbers are not rounded."""
    trial, request = verification.measurement.trial, verification.request
    predicted = verification.prediction
    return {
        "schema": SCHEMA,
        "request": question_document(request),
        **fields(verification, "verdict settles reason"),
        "instance_type": verification.instance.name if verification.instance else None,
        "measured": {
            "trial_id": trial.trial_id,
            "status": str(verification.measurement.status),
            "throughput": {
                "lower": verification.lower,
                "median": verification.rate,
                "upper": verification.upper,
            },
            "unit": rate_unit(request.dataset),
            "confidence": 0.95,
            "steps": len(verification.measurement.step_seconds),
            "runs": len(verification.measurement.run_steps),
            "batch_size": trial.workload.batch_size,
            "accelerator": str(trial.accelerator),
            "processes": trial.processes,
            "gpu": verification.measurement.environment.get("gpu"),
            "cpu": verification.measurement.environment.get("cpu_model"),
            **fields(trial.resources, "vcpus memory_mib"),
            "disk": trial.resources.disk.type,
            **fields(trial.resources.disk, "read_mib_per_second read_iops"),
            "cache": str(trial.cache),
            "limited_by": str(verification.measurement.limited_by),
        },
        "predicted": predicted
        and {"throughput": bounds(predicted), **fields(predicted, "confidence provenance")},
        "caveats": list(verification.caveats),
        "answer_now": verification.answer_now,
    }


def verification_text(verification: Verification) -> str:
    """Return the verdict first, then what was measured and predicted, and what to do now."""
    trial = verification.measurement.trial
    workload, resources = trial.workload, trial.resources
    what = verification.instance.name if verification.instance else "this machine"
    stands = "" if verification.settles or verification.instance is None else " (not settled: see below)"
    held = f"{resources.vcpus:g} vCPUs, {format_mib(resources.memory_mib)} RAM"
    # Each accelerator has one process and one batch per step.
    computes = f"{trial.processes} x {trial.accelerator}" if trial.processes > 1 else trial.accelerator
    target, unit = verification.request.target_throughput or 0, rate_unit(verification.request.dataset)
    lines = [
        *folded(f"{_WORDS[verification.verdict]}: {verification.reason}{stands}.", indent=2),
        "",
        what,
        f"  for         {workload.network} {workload.task}, batch {workload.batch_size}, "
        f"{workload.precision}, at least {format_target(target)} {unit}",
        f"  held to     {held}, disk {resources.disk.type} "
        f"({verification.measurement.limited_by}); {trial.cache} cache, on {computes}",
        f"  measured    {_measured(verification, unit)}",
        *_compared(verification, unit),
        "",
        *folded(f"Now: {verification.answer_now}.", indent=2),
        *(line for caveat in verification.caveats for line in folded(f"Note: {caveat}.", indent=2)),
        f"Stored as trial {trial.trial_id} (`advisor measurements list`).",
    ]
    return "\n".join(lines)


def _measured(verification: Verification, unit: str) -> str:
    if verification.rate is None:
        return f"no rate ({verification.measurement.status.value.replace('_', ' ')})"
    runs = verification.measurement.run_steps
    steps = f"{sum(map(len, runs))} steps in {format_counted(len(runs), 'run')}"
    rate = f"{format_rate(verification.rate)} {unit}"
    if verification.lower is None or verification.upper is None:
        return f"{rate}, {steps}"
    low, high = format_rate(verification.lower), format_rate(verification.upper)
    return f"{rate}; 95 % interval {low} to {high}; {steps}"


def _compared(verification: Verification, unit: str) -> list[str]:
    if verification.prediction is None:
        return ["  predicted   nothing: no data sheet of this GPU"]
    prediction = verification.prediction
    rates = throughput_message(bounds(prediction), unit, prediction.confidence)
    lines = [f"  predicted   {rates}"]
    if verification.rate is not None:
        within = prediction.lower <= verification.rate <= prediction.upper
        off = 100 * (verification.rate / prediction.median - 1)
        side = "inside" if within else "outside"
        lines.append(f"  so it is    {off:+.0f} % off the median, {side} the interval")
    return lines


SERVING_SCHEMA = "advisor.serving_verification/1"
_SERVING_WORDS = {
    Verdict.PASS: "Keeps target and limits",
    Verdict.MISSED: "Misses the target or a limit",
    Verdict.UNDECIDED: "Undecided: a limit lies within the interval of what was measured",
}
# For each criterion: its name, its unit, and the factor that converts the value to that unit.
_SHOWN = {
    "output_tokens_per_second": ("output tokens/s", "", 1.0),
    "requests_per_second": ("requests/s answered", "", 1.0),
    "ttft_seconds": ("TTFT, mean", " ms", 1000.0),
    "tpot_seconds": ("TPOT, mean", " ms", 1000.0),
    "e2e_seconds": ("whole request, mean", " s", 1.0),
    "failed_share": ("failed requests", " %", 100.0),
}


def serving_verification_document(done: ServingVerification) -> dict[str, Any]:
    """Return JSON-ready values; numbers are not rounded."""
    predicted = done.predicted
    return {
        "schema": SERVING_SCHEMA,
        **fields(done, "verdict settles"),
        "model": predicted.model,
        "instance_type": predicted.spec.offer.instance.name,
        "instances": predicted.spec.count,
        "load": done.load,
        "confidence": 0.95,
        "criteria": [
            fields(criterion, "name limit is_least measured lower upper verdict")
            for criterion in done.criteria
        ],
        "measured": dict(done.anchor["loads"][0]),
        "predicted": {
            name: bounds(getattr(predicted.rates, name))
            for name in ("output_tokens_per_second", "ttft_seconds", "tpot_seconds")
        },
        "caveats": list(done.caveats),
        "answer_now": done.answer_now,
    }


def serving_verification_text(done: ServingVerification) -> str:
    """Return the verdict first, then each criterion, what was predicted, and what to do now."""
    spec = done.predicted.spec
    stands = "" if done.settles else " (not settled: see below)"
    header = ("", "asked", "measured", "95 % interval", "")
    rows = [_criterion_cells(criterion) for criterion in done.criteria]
    lines = [
        f"{_SERVING_WORDS[done.verdict]}{stands}.",
        "",
        f"{spec.name} at {format_usd(spec.total_usd_per_hour)}/h, {done.predicted.model}, "
        f"{done.load} on one instance",
        "",
        *table(header, rows, right=(1, 2, 3)),
        "",
        *_predicted_lines(done),
        *folded(f"Now: {done.answer_now}.", indent=2),
        *(line for caveat in done.caveats for line in folded(f"Note: {caveat}.", indent=2)),
    ]
    return "\n".join(lines)


def _criterion_cells(criterion: Criterion) -> tuple[str, ...]:
    name, unit, factor = _SHOWN[criterion.name]
    sign = ">=" if criterion.is_least else "<="
    within = (
        "-"
        if criterion.lower is None or criterion.upper is None or criterion.lower == criterion.upper
        else f"{factor * criterion.lower:.4g} to {factor * criterion.upper:.4g}"
    )
    measured = "-" if criterion.measured is None else f"{factor * criterion.measured:.4g}{unit}"
    return name, f"{sign} {factor * criterion.limit:.4g}{unit}", measured, within, str(criterion.verdict)


def _predicted_lines(done: ServingVerification) -> list[str]:
    figures, rates = done.anchor["loads"][0], done.predicted.rates
    count = done.predicted.spec.count
    lines = []
    for name, each in (("output_tokens_per_second", count), ("ttft_seconds", 1), ("tpot_seconds", 1)):
        shown, unit, factor = _SHOWN[name]
        span, figure = getattr(rates, name).times(factor / each), figures[name]
        if figure is None:
            continue
        off = 100 * (factor * figure["mean"] / span.median - 1)
        lines.append(
            f"Predicted {shown}: {span.median:.4g}{unit} ({span.lower:.4g} to {span.upper:.4g}); "
            f"measured {off:+.0f} %"
        )
    tails = [
        f"{_SHOWN[name][0].removesuffix(', mean')} {1000 * seconds:.4g} ms"
        for name in ("ttft_seconds", "tpot_seconds", "e2e_seconds")
        if (seconds := p99_of(figures[name])) is not None
    ]
    return [*lines, f"Measured p99: {', '.join(tails)}"] if tails else lines
