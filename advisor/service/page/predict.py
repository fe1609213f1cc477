"""`/predict`: the rate of one instance, and what it would be with other vCPUs, RAM or disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter

from advisor.answers.context import Context
from advisor.answers.networks import predicted
from advisor.errors import AdvisorError
from advisor.messages import format_mib
from advisor.questions.fields import Curve
from advisor.questions.network import Predict
from advisor.render.blocks import Column, Look, Table, lower_rate, plain
from advisor.render.i18n.catalogue import Texts
from advisor.render.sentences import bound_name, disk_name, rate_columns, stage_name
from advisor.service.page import specs
from advisor.service.page.frame import Frame
from advisor.service.page.question import QuestionPage, question_of, target_of, words_of_spec
from advisor.service.problems import Problem

Record = Mapping[str, Any]
VCPUS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_MIB = 1024
MEMORY_MIB = tuple(gib * _MIB for gib in (2, 4, 8, 16, 32, 64, 128, 256, 512))
# Provisioned rates of AWS's gp3 volume, which cost extra: the baseline, usual steps, the maximum.
GP3_RATES = ("", ":4000iops:250MiB/s", ":6000iops:500MiB/s", ":16000iops:1000MiB/s")
# Disk types of the other clouds, slow ones first.
TYPES = {"gcp": ("pd-standard", "pd-balanced", "pd-ssd"), "alibaba": ("cloud_ssd", "cloud_essd_pl1")}
# Fields that change an instance into one that nobody sells.
CHANGES = ("vcpus", "memory")


class Step(NamedTuple):
    """A step of a slider: the form's value ('' for the real one), its label, and the amount to predict."""

    value: str
    text: str
    point: Any


def _steps(
    real: float, amounts: Iterable[float], t: Texts, write: Callable[..., str], show: Callable[..., str]
) -> list[Step]:
    """Steps up to four times the `real` amount, which is included and has the value ''."""
    steps = sorted({*(amount for amount in amounts if amount <= 4 * real), real})
    return [
        Step("", t("what_if.real", value=show(amount)), amount)
        if amount == real
        else Step(write(amount), show(amount), amount)
        for amount in steps
    ]


def _disk_steps(cloud: str, disk: Record, own: str, t: Texts) -> list[Step]:
    """Steps for the disks of the cloud, in the form that `--disk` takes. They include `own`, the disk in the
    question, or if that is '', the advisor's choice with the value ''."""
    chosen = specs.disk_word(disk["order"])
    orders = [f"gp3{rates}" for rates in GP3_RATES] if cloud == "aws" else TYPES.get(cloud, ())

    steps = {order: order or chosen for order in (own, *orders)}
    return [
        Step(order, t("disk.local") if shown == "local" else shown.replace(":", " "), order)
        for order, shown in steps.items()
    ]


def _what_if(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    t, target = frame.texts, target_of(words)
    question = question_of(Predict, words)
    base = predicted(context, question.replace(other_vcpus=None, other_memory_mib=None)).document()
    steps = {
        "vcpus": _steps(base["vcpus"], VCPUS, t, str, str),
        "memory": _steps(base["memory_mib"], MEMORY_MIB, t, _gib, format_mib),
        "disk": _disk_steps(base["request"]["cloud"], base["disk"], words.get("disk", ""), t),
    }
    inner = frame.request.url.path != "/predict" or frame.request.query_params.get("part") == "inner"
    orders = dict.fromkeys(step.point or specs.disk_word(base["disk"]["order"]) for step in steps["disk"])
    curve = Curve(
        tuple(step.point for step in steps["vcpus"]),
        tuple(float(step.point) for step in steps["memory"]),
        tuple(order for order in orders if order not in ("", "local")),
    )
    answer = predicted(context, question.replace(curve=curve))
    document = answer.document()
    rates = document["predicted"]["throughput"]
    return {
        "problem": None,
        "said": t(
            "what_if.said",
            name=document["instance_type"],
            median=lower_rate(rates["median"]),
            lower=lower_rate(rates["lower"]),
            unit=specs.rate_unit(document["predicted"], t),
            **specs.percentiles(document["predicted"]["confidence"]),
            stage=bound_name(document, t),
        ),
        "now": _prediction_view(document, base, target, t),
        "sliders": [
            {"name": name, "label": t("field." + name), "steps": ladder, "value": words.get(name, "")}
            for name, ladder in steps.items()
        ],
        # As a part of another answer there is room for the sliders only.
        "curves": [] if inner else _curves(document, words, target, frame),
        "disks": None if inner else _disks(document, t),
        "in_full": document["asked"],
        "assumptions": document["assumptions"],
        "warnings": [*answer.result.notes, *document["warnings"]],
        "changed": any(name in words for name in CHANGES),
    }


def what_if_of(context: Context, pick: Record, frame: Frame) -> dict[str, Any] | None:
    """Values for the sliders of a recommended spec over vCPUs, RAM and disks. `fixed` has the form's other
    fields. None if the spec has several instances or cannot be predicted by itself."""
    if pick["count"] > 1:
        return None
    words = {name: str(value) for name, value in words_of_spec(frame, specs.spec_fields(pick)).items()}
    try:
        values = _what_if(context, words, frame)
    except (AdvisorError, Problem):
        return None
    return values | {"fixed": [(name, value) for name, value in words.items() if name != "disk"]}


def _prediction_view(document: Record, base: Record, target: float | None, t: Texts) -> dict[str, Any]:
    """The predicted spec with its changes, compared on one scale with `base`, the unchanged spec."""
    rates, was = document["predicted"]["throughput"], base["predicted"]["throughput"]
    full = max(rates["upper"], was["upper"], target or 0.0)
    price = document["price"]
    return {
        **specs.machine_view(document, target, t, full),
        "price_told": specs.price_text(price, t) if price else t("what_if.no_price"),
        "was_bar": specs.interval_bar(was, target, t("chart.target"), full),
        "was_label": specs.interval_text(base["predicted"], target, t),
        "was_median": was["median"],
        "delta": rates["median"] / was["median"] - 1,
        "bottleneck": bound_name(document, t),
        "stages": specs.stage_views(document, t),
    }


def _curves(
    document: Record, words: Mapping[str, str], target: float | None, frame: Frame
) -> list[dict[str, Any]]:
    """Pictures and tables of the rate against vCPUs and RAM; points in a picture link to their question."""
    t = frame.texts
    rates = rate_columns(t, document["predicted"]["confidence"], "throughput.")
    return [
        {
            "name": name,
            "title": t("what_if.curve." + name),
            "picture": specs.curve_picture(
                name,
                [{**point, **point["throughput"]} for point in points],
                document,
                target,
                t,
                lambda point, name=name: frame.here(  # type: ignore[misc]
                    "/predict", **{**words, name: _amount(name, point)}
                ),
            ),
            "table": Table(
                [Column(t("what_if.x." + name), partial(_amount, name)), *rates],
                points,
                lambda point, field=field: bool(point[field] == document[field]),  # type: ignore[misc]
            ),
        }
        for name, field in (("vcpus", "vcpus"), ("memory", "memory_mib"))
        if len(points := document["curve"][name]) > 1
    ]


def _amount(name: str, point: Record) -> str:
    return plain(point["vcpus"]) if name == "vcpus" else _gib(point["memory_mib"])


def _gib(mib: float) -> str:
    return f"{mib / _MIB:g}GiB"


def _disks(document: Record, t: Texts) -> Table:
    columns = [
        Column(t("table.disk"), lambda point: disk_name(point["order"], t), Look.LONG),
        *rate_columns(t, document["predicted"]["confidence"], "throughput."),
        Column(t("what_if.disk_usd"), "usd_per_hour", Look.USD, unknown=specs.NOTHING),
        Column(
            t("table.bound"), lambda point: stage_name(point["bottleneck"], t, on_cpu=document["gpu"] is None)
        ),
    ]
    here = document["disk"]["order"]
    return Table(columns, document["curve"]["disk"], lambda point: point["order"] == here)


EXAMPLE = {"task": "training", "model": "resnet50", "instance": "g5.xlarge"}
PAGE = QuestionPage(
    "predict.html", "what_if_answer.html", _what_if, EXAMPLE, frozenset(("instance",)), whole=True
)

router = APIRouter(include_in_schema=False)
router.get("/predict")(PAGE.answer)
