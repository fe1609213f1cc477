"""`/compare`: instances side by side, or GPUs relative to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.comparing import compared
from advisor.answers.context import Context
from advisor.questions.models import Compare
from advisor.render.i18n.catalogue import Texts
from advisor.service.page.frame import Frame
from advisor.service.page.predict import target_of
from advisor.service.page.question import QuestionPage, question_of
from advisor.service.page.specs import (
    NOTHING,
    disk_order,
    gpu_text,
    interval_bar,
    interval_text,
    stage_text,
)
from advisor.units import format_mib

# A bar that is longer than all others ends here; the same as in `bars`.
_SPARE = 1.0


def comparison_view(
    document: Mapping[str, Any], target: float | None, frame: Frame
) -> dict[str, Any]:
    """Values of `comparison.html`: one group a network, its bars on one scale."""
    t, rows = frame.words, document["rows"]
    networks = list(dict.fromkeys(row["network"] for row in rows))
    first = document["requests"][0]
    return {
        "problem": None,
        "wrong": {},
        "said": t("compare.said", number=len(rows)),
        "of_gpus": not any("instance_type" in row for row in rows),
        "baseline": document["baseline"],
        "target": target,
        "title": t("compare.of", task=t("task." + first["task"]), precision=first["precision"]),
        "groups": [_group(name, rows, target, t) for name in networks],
    }


def _group(
    network: str, rows: Sequence[Mapping[str, Any]], target: float | None, t: Texts
) -> dict[str, Any]:
    mine = [row for row in rows if row["network"] == network]
    tops = [row["predicted"]["throughput"]["upper"] for row in mine if row["predicted"]]
    full = max([*tops, target or 0.0], default=_SPARE) or _SPARE
    return {"network": network, "rows": [_row(row, full, target, t) for row in mine]}


def _row(row: Mapping[str, Any], full: float, target: float | None, t: Texts) -> dict[str, Any]:
    gpu = row["gpu"]
    shared = {
        "name": row.get("instance_type") or gpu["name"],
        "gpu": gpu_text(gpu),
        "relative": row["relative"],
        "fits": row["predicted"] is not None,
        "usd_per_hour": row.get("total_usd_per_hour"),
        "usd_per_million": row.get("usd_per_million_samples"),
        "notes": row["extrapolation"],
    }
    if row["predicted"] is None:
        return shared
    rates: dict[str, float] = row["predicted"]["throughput"]
    return (
        shared
        | rates
        | {
            "batch_size": row["batch_size"],
            "provenance": row["predicted"]["provenance"],
            "bar": interval_bar(rates, target, t("chart.target"), full),
            "bar_label": interval_text(rates, target, t),
            "has": _has(row, t),
            "bottleneck": stage_text(row["bottleneck"], row, t) if "bottleneck" in row else NOTHING,
        }
    )


def _has(row: Mapping[str, Any], t: Texts) -> str:
    """What an instance has, or the memory of a GPU alone."""
    if "vcpus" not in row:
        return format_mib(row["gpu"]["memory_mib"])
    machine = t("answer.vcpus", vcpus=f"{row['vcpus']:g}", cores=f"{row['physical_cores']:g}")
    return f"{gpu_text(row['gpu'])} · {machine} · {disk_order(row['disk'], t)}"


EXAMPLE = {"task": "training", "model": "resnet50", "instance": "g4dn.xlarge,g5.xlarge,g6.xlarge"}

router = APIRouter(include_in_schema=False)


def _compare(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    document = compared(context, question_of(Compare, asked)).message_document()
    return comparison_view(document, target_of(asked), frame)


PAGE = QuestionPage(
    "compare.html", "comparison.html", _compare, EXAMPLE, frozenset(("instance", "gpu")), "instance"
)


@router.get("/compare")
async def compare(request: Request) -> Response:
    """The question and the comparison."""
    return await PAGE.answer(request)
