"""The answer of `advisor verify --task generation`, as JSON-ready values and as a few lines."""

from __future__ import annotations

import textwrap
from typing import Any

from advisor.domain.serving_verification import Criterion, ServingVerification, p99_of
from advisor.domain.verification import Verdict
from advisor.render.text import WIDTH, table
from advisor.units import format_usd

SCHEMA = "advisor.serving_verification/1"
_WORDS = {
    Verdict.PASS: "Keeps target and limits",
    Verdict.MISSED: "Misses the target or a limit",
    Verdict.UNDECIDED: "Undecided: a limit lies within the interval of what was measured",
}
# What a criterion is called, its unit, and how many of it one of ours is.
_SHOWN = {
    "output_tokens_per_second": ("output tokens/s", "", 1.0),
    "requests_per_second": ("requests/s answered", "", 1.0),
    "ttft_seconds": ("TTFT, mean", " ms", 1000.0),
    "tpot_seconds": ("TPOT, mean", " ms", 1000.0),
    "e2e_seconds": ("whole request, mean", " s", 1.0),
    "failed_share": ("failed requests", " %", 100.0),
}


def serving_verification_document(done: ServingVerification) -> dict[str, Any]:
    """JSON-ready values; numbers are not rounded."""
    predicted = done.predicted
    return {
        "schema": SCHEMA,
        "verdict": str(done.verdict),
        "settles": done.settles,
        "model": predicted.model,
        "instance_type": predicted.spec.offer.instance.name,
        "instances": predicted.spec.count,
        "load": done.load,
        "confidence": 0.95,
        "criteria": [
            {
                "name": one.name,
                "limit": one.limit,
                "is_least": one.is_least,
                "measured": one.measured,
                "lower": one.lower,
                "upper": one.upper,
                "verdict": str(one.verdict),
            }
            for one in done.criteria
        ],
        "measured": dict(done.anchor["loads"][0]),
        "predicted": {
            name: {"lower": span.lower, "median": span.median, "upper": span.upper}
            for name in ("output_tokens_per_second", "ttft_seconds", "tpot_seconds")
            for span in (getattr(predicted.rates, name),)
        },
        "caveats": list(done.caveats),
        "answer_now": done.answer_now,
    }


def serving_verification_text(done: ServingVerification) -> str:
    """The verdict first, then each criterion, what was predicted, and what to do now."""
    spec = done.predicted.spec
    stands = "" if done.settles else " (not settled: see below)"
    header = ("", "asked", "measured", "95 % interval", "")
    rows = [_cells(one) for one in done.criteria]
    lines = [
        f"{_WORDS[done.verdict]}{stands}.",
        "",
        f"{spec.name} at {format_usd(spec.total_usd_per_hour)}/h, {done.predicted.model}, "
        f"{done.load} on one instance",
        "",
        *table(header, rows, right=(1, 2, 3)),
        "",
        *_predicted(done),
        *textwrap.wrap(f"Now: {done.answer_now}.", WIDTH, subsequent_indent="  "),
    ]
    for caveat in done.caveats:
        lines += textwrap.wrap(f"Note: {caveat}.", WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def _cells(one: Criterion) -> tuple[str, ...]:
    name, unit, factor = _SHOWN[one.name]
    sign = ">=" if one.is_least else "<="
    within = (
        "-"
        if one.lower is None or one.upper is None or one.lower == one.upper
        else f"{factor * one.lower:.4g} to {factor * one.upper:.4g}"
    )
    measured = "-" if one.measured is None else f"{factor * one.measured:.4g}{unit}"
    return name, f"{sign} {factor * one.limit:.4g}{unit}", measured, within, str(one.verdict)


def _predicted(done: ServingVerification) -> list[str]:
    """How far off the prediction of one instance was."""
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
