"""The comparison as Markdown: what docs/internals/claims.md is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.claims.scale import LSTM, SCALE, cloud_disks, lstm_step_seconds
from benchmarks.claims.trials import INFERENCE, TRAINING
from benchmarks.claims.words import Verdict

_FACTS = ("date", "size", "trials", "conversions", "read_ahead_kib")
_ARTICLES = {
    "A1": "A1: performance model of deep learning on GPU servers with a P100 (Alibaba Cloud)",
    "A5": "A5: Lambda's comparison of GPUs, 2020",
    "A4": "A4: parameters that matter for training, on a T4 (Tencent Cloud)",
    "A2": "A2: HP Z8 workstation test",
    "A3": "A3: how to choose and upgrade a GPU",
}


def markdown(document: Mapping[str, Any]) -> str:
    """The whole of docs/internals/claims.md: the verdicts, and why some differ. Curves over vCPUs,
    formats and the limits of every other answer stand in the JSON document alone."""
    claims = document["claims"]
    parts = [_head(document), _summary(claims)]
    parts += [_article(title, claims, name) for name, title in _ARTICLES.items()]
    parts.append(_differences(claims))
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
        + ". Nothing here can tell of "
        + ", ".join(claim["id"] for claim in claims if claim["verdict"] == Verdict.UNKNOWN)
        + "."
    )


def _article(title: str, claims: list[dict[str, Any]], article: str) -> str:
    rows = [
        (claim["id"], claim["claim"], _value(claim), claim["ours"], claim["how"], claim["verdict"])
        for claim in claims
        if claim["article"] == article and claim["verdict"] != Verdict.UNKNOWN
    ]
    if not rows:
        return ""
    header = ("", "the article", "its number", "ours", "how", "")
    return f"## {title}\n\n{table(header, rows)}"


def _value(claim: dict[str, Any]) -> str:
    value = claim["value"]
    return "" if value == "-" else f"{value} {claim['unit']}".strip().removesuffix(" -")


def _differences(claims: list[dict[str, Any]]) -> str:
    lines = [
        f"- **{claim['id']}**: {claim['why']}"
        for claim in claims
        if claim["why"] and claim["verdict"] == Verdict.DIFFERS
    ]
    return "## Where we differ, and why\n\n" + "\n".join(lines)
