"""`/compare`: instances side by side, or GPUs relative to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from advisor.answers.context import Context
from advisor.answers.networks import compared
from advisor.questions.named import Compare
from advisor.render.content import Column, Look, Table
from advisor.render.i18n.catalogue import Texts
from advisor.render.sizing.columns import columns_of, rate_columns
from advisor.service.page.beside import beside_view
from advisor.service.page.frame import Frame
from advisor.service.page.predict import target_of
from advisor.service.page.question import QuestionPage, question_of
from advisor.service.page.specs import NOTHING, disk_order, gpu_text, interval_bar, interval_text, stage_text
from advisor.units import format_mib

# A bar that is longer than all others ends here; the same as in `bars`.
_SPARE = 1.0


def comparison_view(document: Mapping[str, Any], target: float | None, frame: Frame) -> dict[str, Any]:
    """Values of `comparison.html`: one group a network, its bars on one scale."""
    t, rows = frame.texts, document["rows"]
    networks = list(dict.fromkeys(row["network"] for row in rows))
    asked = dict(zip([one["model"] for one in document["requests"]], document["asked"], strict=True))
    return {
        "problem": None,
        "wrong": {},
        "said": t("compare.said", number=len(rows)),
        "specs": None,
        "baseline": document["baseline"],
        "groups": [_group(name, rows, target, t) | {"asked": asked[name]} for name in networks],
    }


def _group(network: str, rows: Sequence[Mapping[str, Any]], target: float | None, t: Texts) -> dict[str, Any]:
    mine = [row for row in rows if row["network"] == network]
    tops = [row["predicted"]["throughput"]["upper"] for row in mine if row["predicted"]]
    full = max([*tops, target or 0.0], default=_SPARE) or _SPARE
    return {
        "network": network,
        "baseline": mine[0].get("relative_to"),
        "rows": [_row(row, full, target, t) | _own_warnings(row, mine) for row in mine],
        "table": Table(_columns(mine, t), mine),
        "notes": list(dict.fromkeys(note for row in mine for note in row["extrapolation"])),
    }


def _own_warnings(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`warnings`: what is to be minded of this instance and not of every one."""
    warned = row.get("warnings", ())
    return {"warnings": [one for one in warned if any(one not in x["warnings"] for x in rows)]}


def _columns(rows: Sequence[Mapping[str, Any]], t: Texts) -> list[Column]:
    """Of instances or GPUs; of one that no batch fits, a dash."""
    confidences = [row["predicted"]["confidence"] for row in rows if row["predicted"]]
    of_gpus = not any("instance_type" in row for row in rows)

    def bound(row: Mapping[str, Any]) -> str | None:
        return stage_text(row["bottleneck"], row, t) if row["predicted"] else None

    def provenance(row: Mapping[str, Any]) -> str | None:
        return t("provenance." + row["predicted"]["provenance"]) if row["predicted"] else None

    columns = [
        Column(t("table.gpu" if of_gpus else "table.instance"), _name),
        Column(t("table.batch"), "batch_size", Look.WHOLE),
        *rate_columns(t, confidences[0] if confidences else None, "predicted.throughput."),
    ]
    if not of_gpus:
        columns += columns_of(
            t,
            ("per_hour", "total_usd_per_hour", Look.USD),
            ("per_million_samples", "usd_per_million_samples", Look.USD),
            ("bound", bound),
        )
    columns.append(Column(t("table.stands"), provenance))
    return [column._replace(unknown=NOTHING) for column in columns]


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("instance_type") or row["gpu"]["name"])


def _row(row: Mapping[str, Any], full: float, target: float | None, t: Texts) -> dict[str, Any]:
    """The bar of an instance or a GPU."""
    shared = {"name": _name(row), "relative": row["relative"], "fits": row["predicted"] is not None}
    if row["predicted"] is None:
        return shared
    return shared | {
        "bar": interval_bar(row["predicted"]["throughput"], target, t("chart.target"), full),
        "bar_label": interval_text(row["predicted"], target, t),
        "has": _has(row, t),
    }


def _has(row: Mapping[str, Any], t: Texts) -> str:
    """What an instance has, or the memory of a GPU alone."""
    if "vcpus" not in row:
        return format_mib(row["gpu"]["memory_mib"])
    machine = t("answer.vcpus", vcpus=f"{row['vcpus']:g}", cores=f"{row['physical_cores']:g}")
    return f"{gpu_text(row['gpu'])} · {machine} · {disk_order(row['disk'], t)}"


EXAMPLE = {"task": "training", "model": "resnet50", "instance": "g4dn.xlarge,g5.xlarge,g6.xlarge"}

router = APIRouter(include_in_schema=False)


def _compare(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    if asked.get("spec"):
        view = beside_view(context, asked, frame)
        return {"problem": None, "specs": view, "said": view["said"]}
    document = compared(context, question_of(Compare, asked)).message_document()
    return comparison_view(document, target_of(asked), frame)


PAGE = QuestionPage(
    "compare.html",
    "comparison.html",
    _compare,
    EXAMPLE,
    frozenset(("instance", "gpu", "spec")),
    ("instance", "spec"),
)
router.get("/compare")(PAGE.answer)
