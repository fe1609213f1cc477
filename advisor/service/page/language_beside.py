"""`/language/compare`: instances that serve a language model, side by side under one load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.questions.language import CompareGeneration
from advisor.render.i18n.catalogue import Texts
from advisor.render.language.phrases import seconds_text
from advisor.service.page.beside import (
    Fact,
    Record,
    bars_of,
    fact,
    machine_facts,
    provenance_fact,
    ranked,
    rate_facts,
    usd_per_hour,
)
from advisor.service.page.frame import Frame
from advisor.service.page.language import USUAL, language_choices
from advisor.service.page.question import QuestionPage, question_of
from advisor.units import format_usd

EXAMPLE = {"model": "meta-llama/Llama-3.1-8B", "users": "8", "instance": "g6.xlarge,g5.xlarge"}

router = APIRouter(include_in_schema=False)


def _compared(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    question = question_of(CompareGeneration, {**asked, "task": USUAL["task"]})
    document, t = ask.compare(context, question).message_document(), frame.texts
    rows, target = document["rows"], document["request"]["target_output_tokens_per_second"]
    said = t("compare.said", number=len(rows))
    specs = {
        "names": [row["instance_type"] for row in rows],
        "bars": bars_of(rows, target, t),
        "facts": _facts(rows, document["baseline"], t),
        "what_if": (),
        "network": document["request"]["model"],
    }
    return {"problem": None, "wrong": {}, "specs": specs, "said": said}


def _facts(rows: Sequence[Record], baseline: str, t: Texts) -> list[Fact]:
    of_times = (("lm.ttft", "ttft_seconds"), ("lm.tpot", "tpot_seconds"), ("lm.e2e", "e2e_seconds"))
    return [
        ranked(t("table.per_hour"), rows, usd_per_hour, format_usd, min),
        ranked(t("table.per_million_output_tokens"), rows, _usd_per_million, format_usd, min),
        *rate_facts(rows, t),
        fact(t("compare.baseline", name=baseline), rows, lambda row: f"{row['relative']:.2f}"),
        *(ranked(t(key), rows, partial(_median, of), seconds_text, min) for key, of in of_times),
        fact(t("lm.bound"), rows, lambda row: t(f"bind.{row['bottleneck']}")),
        fact(t("lm.runs"), rows, _replicas),
        fact(t("lm.formats"), rows, _formats),
        *machine_facts(rows, t),
        provenance_fact(rows, t),
    ]


def _usd_per_million(row: Record) -> float | None:
    """Output tokens, at the median; None where the instance has no price."""
    return float(row["cost"]["usd_per_million_output_tokens"]["median"]) if row["cost"] else None


def _median(name: str, row: Record) -> float:
    return float(row["serving"]["rates"][name]["median"])


def _replicas(row: Record) -> str:
    placed = row["serving"]["placement"]
    return f"{placed['replicas']} x TP{placed['tensor_parallel']}"


def _formats(row: Record) -> str:
    return f"{row['serving']['precision']}, {row['serving']['kv_precision']}"


PAGE = QuestionPage(
    "language_compare.html",
    "comparison.html",
    _compared,
    EXAMPLE,
    frozenset(("instance",)),
    ("instance",),
    usual=USUAL,
    choices=language_choices,
)
router.get("/language/compare")(PAGE.answer)
