"""The comparison as Markdown: what docs/internals/claims.md is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claims.scale import LSTM, SCALE, cloud_disks, lstm_step_seconds
from benchmarks.claims.trials import INFERENCE, TRAINING

_FACTS = ("date", "size", "trials", "conversions", "read_ahead_kib")
_ARTICLES = {
    "A1": "A1: performance model of deep learning on GPU servers with a P100 (Alibaba Cloud)",
    "A5": "A5: Lambda's comparison of GPUs, 2020",
    "A4": "A4: parameters that matter for training, on a T4 (Tencent Cloud)",
    "A2": "A2: HP Z8 workstation test",
    "A3": "A3: how to choose and upgrade a GPU",
}


def markdown(document: Mapping[str, Any]) -> str:
    """The whole of docs/internals/claims.md."""
    claims = document["claims"]
    parts = [_head(document), _summary(claims)]
    parts += [_article(title, claims, name) for name, title in _ARTICLES.items()]
    parts.append(_differences(claims))
    parts += [_curves(claim) for claim in claims if claim["id"] in ("A01", "A02")]
    if document.get("formats"):
        parts += [_needed(document["vcpus_needed"]), _formats(document["formats"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(one) for one in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _head(document: Mapping[str, Any]) -> str:
    """The text of head.md with the run's facts filled in."""
    ssd, efficient = (cloud_disks()[name] for name in ("ssd", "efficient"))
    facts = {
        **document["machine"],
        **{name: document[name] for name in _FACTS},
        "scale": SCALE,
        "lstm": LSTM,
        "training_ms": f"{1e3 * lstm_step_seconds(TRAINING):.2f}",
        "inference_ms": f"{1e3 * lstm_step_seconds(INFERENCE):.2f}",
        "ssd": f"{ssd.read_mb_per_second:g} MB/s, {ssd.read_iops:,.0f} IOPS",
        "efficient": f"{efficient.read_mb_per_second:g} MB/s, {efficient.read_iops:,.0f} IOPS",
    }
    return Path(__file__).with_name("head.md").read_text().format(**facts).strip()


def _summary(claims: list[dict[str, Any]]) -> str:
    how = Counter(claim["how"] for claim in claims)
    verdicts = Counter(claim["verdict"] for claim in claims)
    return (
        f"{len(claims)} claims: "
        + ", ".join(f"{count} {name}" for name, count in how.most_common())
        + ". Of them "
        + ", ".join(f"{count} {name}" for name, count in verdicts.most_common())
        + "."
    )


def _article(title: str, claims: list[dict[str, Any]], article: str) -> str:
    rows = [
        (
            claim["id"], claim["claim"], _value(claim), claim["ours"], claim["how"],
            claim["verdict"],
        )
        for claim in claims
        if claim["article"] == article
    ]  # fmt: skip
    if not rows:
        return ""
    header = ("", "the article", "its number", "ours", "how", "")
    return f"## {title}\n\n{table(header, rows)}"


def _value(claim: dict[str, Any]) -> str:
    value = claim["value"]
    return "" if value == "-" else f"{value} {claim['unit']}".strip().removesuffix(" -")


def _differences(claims: list[dict[str, Any]]) -> str:
    lines = [
        f"- **{claim['id']}** ({claim['verdict']}): {claim['why']}"
        for claim in claims
        if claim["why"]
    ]
    return "## Where we differ, and why; and what limits an answer\n\n" + "\n".join(lines)


def _curves(claim: dict[str, Any]) -> str:
    """Rates by vCPUs of a task, all networks and formats."""
    curves = claim["numbers"]
    if not curves:
        return ""
    vcpus = sorted({one for c in curves.values() for one in _by_vcpus(c)}, key=float)
    header = ("network/format", *(f"{one} vCPUs" for one in vcpus), "P100 alone", "knee (3 %)",
              "vCPUs needed, modelled from the host's rate")  # fmt: skip
    rows = [
        (
            name, *(f"{_by_vcpus(c)[one]:.0f}" if one in _by_vcpus(c) else "" for one in vcpus),
            f"{c['accelerator_samples_per_second']:.0f}", c["knee_3_percent"],
            f"{c['vcpus_needed_modelled']:.1f}",
        )
        for name, c in curves.items()
    ]  # fmt: skip
    task = "Training" if claim["id"] == "A01" else "Inference"
    return f"## {task}, images/s over vCPUs ({claim['how']})\n\n{table(header, rows)}"


def _by_vcpus(curve: dict[str, Any]) -> dict[str, float]:
    rates: dict[str, float] = curve["samples_per_second_by_vcpus"]
    return rates


def _needed(rows: list[dict[str, Any]]) -> str:
    names = sorted({name for row in rows for name in row["vcpus"]})
    cells = [
        (row["network"], row["task"], *(f"{row['vcpus'][name]:.1f}" for name in names))
        for row in rows
    ]
    return (
        "## vCPUs that a P100 asks for, by format (modelled from measured host rates)\n\n"
        "The published rate over the host's cached rate of a vCPU, a core each. JPEG files and "
        "LMDB by each network's own host rate; tar and RecordIO by their ratio to files in "
        f"GoogLeNet's trials.\n\n{table(('network', 'task', *names), cells)}"
    )


def _formats(rows: list[dict[str, Any]]) -> str:
    header = ("format", "vCPUs", "cache", "images/s", "host images/s a vCPU", "bytes read an image")
    cells = [
        (
            str(row["format"]), f"{row['vcpus']:g}", str(row["cache"]),
            f"{row['samples_per_second']:.0f}", f"{row['host_samples_per_second_and_vcpu']:.0f}",
            "-" if row["read_bytes_per_sample"] is None else f"{row['read_bytes_per_sample']:,.0f}",
        )
        for row in rows
    ]  # fmt: skip
    return (
        f"## Formats, cached against cold\n\nGoogLeNet's inference at 1/{SCALE} scale from this "
        "machine's own disk (not throttled); rates multiplied by the scale, host rates as "
        f"measured.\n\n{table(header, cells)}"
    )
