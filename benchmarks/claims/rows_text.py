"""A04, A05 and A17: the LSTM and its text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain import Measurement
from benchmarks.claims.evidence import Evidence, rate_of
from benchmarks.claims.trials import INFERENCE, TRAINING
from benchmarks.claims.words import Finding, Kind, agrees_if

_FLAT_PERCENT = 3.0
_PACE = (
    "The pace is the published step of a GTX 1070 over the ratio of memory bandwidths, the least a "
    "P100 could take; the words lie in memory as numbers."
)


def a04(evidence: Evidence) -> Finding:
    """Training on PTB is content with 2 vCPUs and 1 GB."""
    rows = evidence.text(TRAINING)
    rates = _rates(rows)
    spread = _spread_percent([rate for (vcpus, _), rate in rates.items() if vcpus >= 1])
    text, framework = evidence.text_pipeline(), evidence.framework()
    peak = max(row.environment["anonymous_memory_mib"] for row in rows)
    flat = spread <= _FLAT_PERCENT
    return Finding(
        kind=Kind.MEASURED,
        verdict=agrees_if(flat and text["pipeline_mib"] < 1024),
        ours=f"flat within {spread:.1f} % over 1 to 2 vCPUs and 0.5 to 4 GiB; text pipeline "
        f"{text['pipeline_mib']:.0f} MiB, torch alone {framework['peak_mib']:.0f} MiB",
        why=f"{_PACE} A CUDA context adds about 1.2 GiB to a real process, so that 1 GB would not "
        "hold PyTorch on a GPU; MXNet's floor was lower.",
        numbers={
            "tokens_per_second": _document(rates),
            "own_memory_mib": round(peak),
            "text_pipeline_mib": round(text["pipeline_mib"]),
            "framework_mib": round(framework["peak_mib"]),
        },
    )


def a05(evidence: Evidence) -> Finding:
    """2 vCPUs should do for inference, which the article did not measure."""
    rates = _rates(evidence.text(INFERENCE))
    half, two = (rates[vcpus, 1024.0] for vcpus in (0.5, 2.0))
    accelerator = evidence.text(INFERENCE)[0].stage_rates["accelerator"]
    return Finding(
        kind=Kind.MEASURED,
        verdict=agrees_if(two >= 0.95 * accelerator),
        ours=f"{two / accelerator:.0%} of the accelerator's rate with 2 vCPUs and 1 GiB, "
        f"{half / accelerator:.0%} with half a vCPU",
        why=f"{_PACE} Inference is taken as a third of the training step.",
        numbers={"tokens_per_second": _document(rates), "accelerator": round(accelerator)},
    )


def a17(evidence: Evidence) -> Finding:
    """PTB has about a million words, 10,000 different ones."""
    text = evidence.text_pipeline()
    tokens, vocabulary = int(text["tokens"]), int(text["vocabulary"])
    return Finding(
        kind=Kind.MEASURED,
        verdict=agrees_if(tokens == 929_589 and vocabulary == 10_000),
        ours=f"`advisor dataset make text`: {tokens:,} tokens, {vocabulary:,} words",
        why="Made, not the corpus: its counts and a Zipf law of frequencies, for speed only.",
        numbers={"tokens": tokens, "vocabulary": vocabulary},
    )


def _rates(rows: Sequence[Measurement]) -> dict[tuple[float, float], float]:
    return {(row.trial.resources.vcpus, row.trial.resources.memory_mib): rate_of(row) for row in rows}


def _document(rates: dict[tuple[float, float], float]) -> dict[str, float]:
    return {f"{v:g} vCPUs, {m:g} MiB": round(rate) for (v, m), rate in sorted(rates.items())}


def _spread_percent(rates: list[float]) -> float:
    return 100 * (max(rates) / min(rates) - 1)
