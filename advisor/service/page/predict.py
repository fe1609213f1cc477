"""`/predict`: one instance, and what it would reach with other vCPUs, RAM or disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter

from advisor.answers.context import Context
from advisor.answers.networks import predicted
from advisor.errors import AdvisorError, UsageError
from advisor.questions.named import Predict
from advisor.questions.numbers import RATE
from advisor.questions.values import Curve
from advisor.render.content import Column, Look, Table
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, plain
from advisor.render.sizing.columns import rate_columns
from advisor.service.page.frame import Frame
from advisor.service.page.pictures import curve_picture, disk_of
from advisor.service.page.question import QuestionPage, question_of, workload_fields
from advisor.service.page.specs import (
    LOCAL,
    NOTHING,
    disk_order,
    interval_bar,
    interval_text,
    percentiles,
    price_text,
    rate_unit,
    spec_fields,
    spec_row,
    stage_text,
    stage_views,
    told_view,
)
from advisor.service.problems import Problem
from advisor.units import format_mib

VCPUS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MEMORY_GIB = (2, 4, 8, 16, 32, 64, 128, 256, 512)
# Rates of AWS's general volume that are priced apart: its least, its usual steps, its most.
GP3_RATES = ("", ":4000iops:250MiB/s", ":6000iops:500MiB/s", ":16000iops:1000MiB/s")
# Of the other clouds the types themselves, slow ones first.
TYPES = {"gcp": ("pd-standard", "pd-balanced", "pd-ssd"), "alibaba": ("cloud_ssd", "cloud_essd_pl1")}
_MIB = 1024


class Step(NamedTuple):
    """One place of a slider: what is sent ('' is as it is), what is told, and what is predicted."""

    value: str
    text: str
    point: object


def vcpu_steps(real: int, t: Texts) -> list[Step]:
    """Whole vCPUs, the instance's own among them, up to four times as many."""
    counts = sorted({*(count for count in VCPUS if count <= 4 * real), real})
    return [_step(str(at), str(at), at, at == real, t) for at in counts]


def memory_steps(real_mib: float, t: Texts) -> list[Step]:
    """Sizes of RAM, the instance's own among them, up to four times as much."""
    sizes = {gib * _MIB for gib in MEMORY_GIB if gib * _MIB <= 4 * real_mib} | {real_mib}
    return [_step(f"{mib / _MIB:g}GiB", format_mib(mib), mib, mib == real_mib, t) for mib in sorted(sizes)]


def disk_steps(cloud: str, disk: Mapping[str, Any], asked: str | None, t: Texts) -> list[Step]:
    """Disks of the cloud, the one that is asked about among them; orders as `--disk` takes them.

    Without a disk in the question the advisor's own choice stands there, as ''.
    """
    chosen = "local" if disk["type"] == LOCAL else str(disk["order"])
    own = asked or ""
    orders = [f"gp3{rates}" for rates in GP3_RATES] if cloud == "aws" else TYPES.get(cloud, ())
    orders_shown = [own, *(order for order in orders if order != own)]
    return [Step(order, _disk_label(order or chosen, t), order) for order in dict.fromkeys(orders_shown)]


def _disk_label(order: str, t: Texts) -> str:
    return t("disk.local") if order == "local" else order.replace(":", " ")


def _step(value: str, text: str, point: object, is_real: bool, t: Texts) -> Step:
    """What is as it is needs no word in the address."""
    return Step("", t("what_if.real", value=text), point) if is_real else Step(value, text, point)


# Texts that make of a spec what nobody sells.
CHANGES = ("vcpus", "memory")


def what_if_values(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    """Values of `what_if_answer.html` and of its sliders."""
    t, target = frame.texts, target_of(asked)
    question = question_of(Predict, asked)
    base = predicted(context, question.replace(vcpus=None, memory=None)).document()
    steps = steps_of(base, asked, t)
    own = "" if base["disk"]["type"] == LOCAL else str(base["disk"]["order"])
    orders = [str(step.point) or own for step in steps["disk"]]
    curve = Curve(
        tuple(int(str(step.point)) for step in steps["vcpus"]),
        tuple(float(str(step.point)) for step in steps["memory"]),
        tuple(dict.fromkeys(order for order in orders if order not in ("", "local"))),
    )
    answer = predicted(context, question.replace(curve=curve))
    document = answer.document()
    return {
        "problem": None,
        "wrong": {},
        "said": _summary(document, t),
        "now": prediction_view(document, base, target, t),
        "sliders": _sliders(steps, asked, t),
        "curves": _curves(document, asked, target, frame),
        "disks": _disks(document, t),
        "target": target,
        "in_full": document["asked"],
        "assumptions": document["assumptions"],
        "warnings": [*answer.result.notes, *document["warnings"]],
        "changed": _is_changed(asked),
    }


def what_if_of(context: Context, pick: Mapping[str, Any], frame: Frame) -> dict[str, Any] | None:
    """The same for a recommended spec, with the words that its form sends besides the sliders'; None where
    one instance alone does not answer, or cannot be asked about."""
    if pick["count"] > 1:
        return None
    asked = {name: str(value) for name, value in (workload_fields(frame) | spec_fields(pick)).items()}
    try:
        values = what_if_values(context, asked, frame)
    except (AdvisorError, Problem):
        return None
    fixed = [(name, value) for name, value in asked.items() if name != "disk"]
    return values | {"fixed": fixed}


def target_of(asked: Mapping[str, str]) -> float | None:
    """The target that a rate is held to; None where none is asked for, or it is no number."""
    text = asked.get("target_throughput")
    try:
        return RATE.from_text(text, "target_throughput") if text else None
    except UsageError:
        return None


def steps_of(base: Mapping[str, Any], asked: Mapping[str, str], t: Texts) -> dict[str, list[Step]]:
    """The places of each slider."""
    return {
        "vcpus": vcpu_steps(base["vcpus"], t),
        "memory": memory_steps(base["memory_mib"], t),
        "disk": disk_steps(base["request"]["cloud"], base["disk"], asked.get("disk"), t),
    }


def prediction_view(
    document: Mapping[str, Any], base: Mapping[str, Any], target: float | None, t: Texts
) -> dict[str, Any]:
    """The prediction as it is asked about, on one scale with the spec as it is."""
    rates, was = document["predicted"]["throughput"], base["predicted"]["throughput"]
    full = max(rates["upper"], was["upper"], target or 0.0)
    price = document["price"]
    return {
        **spec_row(document, t),
        **told_view(document, t),
        "price_told": price_text(price, t) if price else t("what_if.no_price"),
        "bar": interval_bar(rates, target, t("chart.target"), full),
        "bar_label": interval_text(document["predicted"], target, t),
        "was_bar": interval_bar(was, target, t("chart.target"), full),
        "was_label": interval_text(base["predicted"], target, t),
        "was_median": was["median"],
        "delta": rates["median"] / was["median"] - 1,
        "bottleneck": stage_text(document["bottleneck"], document, t),
        "stages": stage_views(document, t),
        "batch_size": document["batch_size"],
    }


def _is_changed(asked: Mapping[str, str]) -> bool:
    return any(name in asked for name in CHANGES)


def _summary(document: Mapping[str, Any], t: Texts) -> str:
    rates = document["predicted"]["throughput"]
    return t(
        "what_if.said",
        name=document["instance_type"],
        median=lower_rate(rates["median"]),
        lower=lower_rate(rates["lower"]),
        unit=rate_unit(document["predicted"], t),
        **percentiles(document["predicted"]["confidence"]),
        stage=stage_text(document["bottleneck"], document, t),
    )


def _sliders(steps: Mapping[str, Sequence[Step]], asked: Mapping[str, str], t: Texts) -> list[dict[str, Any]]:
    return [
        {"name": name, "label": t("field." + name), "steps": ladder, "value": asked.get(name, "")}
        for name, ladder in steps.items()
    ]


def _curves(
    document: Mapping[str, Any], asked: Mapping[str, str], target: float | None, frame: Frame
) -> list[dict[str, Any]]:
    """Rate against vCPUs and RAM, as a picture and a table; a place leads to the question with so much of
    it."""
    t = frame.texts
    rates = rate_columns(t, document["predicted"]["confidence"], "throughput.")
    return [
        {
            "name": name,
            "title": t("what_if.curve." + name),
            "picture": curve_picture(
                name,
                [{**at, **at["throughput"]} for at in points],
                document,
                target,
                t,
                lambda at, name=name: frame.here(  # type: ignore[misc]
                    "/predict", **{**asked, name: _amount(name, at)}
                ),
            ),
            "table": Table(
                [Column(t("what_if.x." + name), partial(_amount, name)), *rates],
                points,
                partial(_is_here, name, document),
            ),
        }
        for name in ("vcpus", "memory")
        if len(points := document["curve"][name]) > 1
    ]


def _amount(name: str, at: Mapping[str, Any]) -> str:
    """As the question takes it: '8', '32GiB'."""
    return plain(at["vcpus"]) if name == "vcpus" else f"{at['memory_mib'] / _MIB:g}GiB"


def _is_here(name: str, document: Mapping[str, Any], at: Mapping[str, Any]) -> bool:
    field = "vcpus" if name == "vcpus" else "memory_mib"
    return bool(at[field] == document[field])


def _disks(document: Mapping[str, Any], t: Texts) -> Table:
    """Rate and price with other disks."""
    columns = [
        Column(t("table.disk"), lambda at: disk_order(disk_of(at["order"]), t), Look.LONG),
        *rate_columns(t, document["predicted"]["confidence"], "throughput."),
        Column(t("what_if.disk_usd"), "usd_per_hour", Look.USD, unknown=NOTHING),
        Column(t("table.bound"), lambda at: stage_text(at["bottleneck"], document, t)),
    ]
    here = document["disk"]["order"]
    return Table(columns, document["curve"]["disk"], lambda at: at["order"] == here)


EXAMPLE = {"task": "training", "model": "resnet50", "instance": "g5.xlarge"}
PAGE = QuestionPage("predict.html", "what_if_answer.html", what_if_values, EXAMPLE, frozenset(("instance",)))

router = APIRouter(include_in_schema=False)
router.get("/predict")(PAGE.answer)
