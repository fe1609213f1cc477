"""`/`: a question by its fields, and the answer under its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from advisor.answers.context import Context
from advisor.answers.recommending import recommended
from advisor.domain.generation import LanguageTask
from advisor.questions.models import (
    Recommend,
)
from advisor.render.content import Column, Look, Table
from advisor.render.document_names import covers_clouds, spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.render.price_parts import price_call_leaves
from advisor.render.sizing.columns import (
    alternative_columns,
    rate_columns,
    rejected_columns,
    settings_columns,
)
from advisor.render.sizing.sentences import borderline_sentence
from advisor.render.text import lower_name
from advisor.service.page.export import export_links
from advisor.service.page.frame import Frame
from advisor.service.page.predict import what_if_of
from advisor.service.page.question import QuestionPage, question_of, workload_fields
from advisor.service.page.specs import (
    NOTHING,
    disk_order,
    percentiles,
    point_attributes,
    spec_fields,
    spec_view,
)
from advisor.units import format_target, format_usd

# Instances that are compared side by side: more columns nobody reads.
COMPARED = 4


def answer_view(document: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    """Values of `answer.html` for one answer, or for the lack of one."""
    t, request = frame.texts, document["request"]
    target, pick = request["target_throughput"], document["recommendation"]
    shared = {
        "problem": None,
        "target": target,
        "assumptions": document["assumptions"],
        "warnings": document["warnings"],
        "rejected": _rejected(document, frame),
        "model": document["performance_model"],
        "percentiles": percentiles(request["confidence"]),
    }
    if pick is None:
        return shared | _without_offer(document, frame)
    view = spec_view(pick, target, t)
    return shared | {
        "pick": view,
        "headline": _headline(request, t),
        "said": _summary(view, request["confidence"], t),
        "price_call": list(price_call_leaves(document, t)),
        "close": _borderline(document, t),
        "exports": export_links(frame),
        "points": _points_table(document, t),
        "alternatives": _alternatives(document, frame),
        "settings": Table(settings_columns(t), document["other_settings"]),
        "compare_href": _compare_href(document, frame),
    }


def _headline(request: Mapping[str, Any], t: Texts) -> str:
    task = t("task." + request["task"])
    if request["target_throughput"] is None:
        return t("answer.cheapest", model=request["model"], task=task)
    rate = format_target(request["target_throughput"])
    unit = f"{request['dataset']['sample']}s/s"
    unit = t.known(f"unit.{unit}", unit)
    return t("answer.reaches", model=request["model"], task=task, rate=rate, unit=unit)


def _summary(view: Mapping[str, Any], confidence: float, t: Texts) -> str:
    """What a screen reader is told when the answer changes."""
    return t(
        "answer.said",
        name=view["name"],
        usd=format_usd(view["usd_per_hour"]),
        lower=lower_rate(view["lower"]),
        p10=lower_name(confidence),
        unit=view["unit"],
    )


def _without_offer(document: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    nearest, t = document["nearest"], frame.texts
    target = document["request"]["target_throughput"]
    return {
        "pick": None,
        "nearest": spec_view(nearest, target, t) if nearest else None,
        "ways": ways_out(document, frame),
        "said": t("none.title"),
    }


def _borderline(document: Mapping[str, Any], t: Texts) -> dict[str, str] | None:
    """The borderline candidate that matters most, and the trial that settles it."""
    if not document["close_calls"]:
        return None
    first = document["close_calls"][0]
    target, clouds = document["request"]["target_throughput"], covers_clouds(document)
    text = borderline_sentence(first, target, t, clouds=clouds)
    return {"text": text, "command": first["trial"]["command"]}


def _rejected(document: Mapping[str, Any], frame: Frame) -> dict[str, Any] | None:
    """The nearest rejected types, or all of them, in the document's order."""
    t, pick = frame.texts, document["recommendation"]
    shown, number = document["rejected"], document["catalog"]["offers_rejected"]
    if not shown:
        return None
    return {
        "title": t("why.title" if pick else "why.none_title", number=f"{number:,}"),
        "of": document["catalog"]["offers_considered"],
        "counts": list(document["catalog"]["rejected_by_reason"].items()),
        "table": Table(rejected_columns(t, clouds=covers_clouds(document)), shown),
        "number": number,
        "more_href": frame.same("/", rejected="all") if len(shown) < number else None,
    }


def _alternatives(document: Mapping[str, Any], frame: Frame) -> Table | None:
    t, specs = frame.texts, document["alternatives"]
    if not specs:
        return None
    home, confidence = document["recommendation"]["region"], document["request"]["confidence"]
    action = Column(
        t("table.action"), lambda _spec: t("nav.predict"),
        link=lambda spec: what_if_href(spec, frame),
        label=lambda spec: t("others.what_if", name=spec_name(spec)),
    )  # fmt: skip
    columns = alternative_columns(t, home, confidence, clouds=covers_clouds(document))
    return Table([*columns, action], specs)


def what_if_href(spec: Mapping[str, Any], frame: Frame) -> str:
    """The page that changes this spec's vCPUs, RAM and disk."""
    return frame.here("/predict", **workload_fields(frame), **spec_fields(spec))


def _compare_href(document: Mapping[str, Any], frame: Frame) -> str | None:
    """The chosen one beside the first alternatives, where they are of one place."""
    specs = [document["recommendation"], *document["alternatives"]]
    first = specs[0]
    alike = [
        spec
        for spec in specs
        if (spec["cloud"], spec["region"]) == (first["cloud"], first["region"])
    ]
    names = list(dict.fromkeys(spec["instance_type"] for spec in alike))[:COMPARED]
    if len(names) < 2:
        return None
    place = {name: first[name] for name in ("cloud", "region", "market")}
    return frame.here("/compare", **workload_fields(frame), **place, instance=",".join(names))


def chart_points(document: Mapping[str, Any], t: Texts) -> list[dict[str, Any]]:
    """One point a spec, cheapest first: the pick, the other answers, and the Pareto front.

    A spec of the front that is no answer (it misses the target) has no median in the document.
    """
    specs = [(document["recommendation"], "pick")]
    specs += [(spec, "other") for spec in document["alternatives"]]
    points = {_key(spec, spec["disk"]["order"]): _of_spec(spec, kind, t) for spec, kind in specs}
    for spec in document["pareto"]:
        point = points.setdefault(_key(spec, spec["disk"]), _of_front(spec, t))
        point["front"] = True
    return sorted(points.values(), key=lambda point: point["x"])


def _key(spec: Mapping[str, Any], disk: str) -> tuple[object, ...]:
    return spec["instance_type"], spec["cloud"], spec["region"], disk, spec["batch_size"]


def _of_spec(spec: Mapping[str, Any], kind: str, t: Texts) -> dict[str, Any]:
    return {
        "name": spec_name(spec),
        "disk": disk_order(spec["disk"], t),
        "kind": kind,
        "front": False,
        "x": spec["price"]["total_usd_per_hour"],
        **spec["predicted"]["throughput"],
    }


def _of_front(spec: Mapping[str, Any], t: Texts) -> dict[str, Any]:
    disk = {"type": spec["disk"].partition(":")[0], "order": spec["disk"]}
    return {
        "name": spec["instance_type"],
        "disk": disk_order(disk, t),
        "kind": "front",
        "front": True,
        "x": spec["total_usd_per_hour"],
        "lower": spec["lower"],
        "median": None,
        "upper": None,
    }


def _points_table(document: Mapping[str, Any], t: Texts) -> Table:
    """The points of the chart, which its script reads from the rows."""
    confidence = document["request"]["confidence"]
    columns = [
        Column(t("table.instance"), "name"),
        Column(t("table.disk"), "disk"),
        Column(t("table.per_hour"), "x", Look.USD),
        *(column._replace(unknown=NOTHING) for column in rate_columns(t, confidence)),
        Column(t("chart.kind"), lambda point: t("chart." + point["kind"])),
    ]

    def attributes(point: Mapping[str, Any]) -> dict[str, Any]:
        label = t(
            "chart.said", name=point["name"], kind=t("chart." + point["kind"]),
            usd=format_usd(point["x"]), lower=lower_rate(point["lower"]),
            p10=lower_name(confidence),
        )  # fmt: skip
        return point_attributes(point, label) | ({"data-front": ""} if point["front"] else {})

    return Table(columns, chart_points(document, t), attributes=attributes)


MOST = 6


def ways_out(document: Mapping[str, Any], frame: Frame) -> list[dict[str, str]]:
    """The document's `relax`: the changed question as a link, and what it gives."""
    confidence = document["request"]["confidence"]
    return [_way(relaxation, confidence, frame) for relaxation in document["relax"][:MOST]]


def _way(relaxation: Mapping[str, Any], confidence: float, frame: Frame) -> dict[str, str]:
    t, gives = frame.texts, relaxation["gives"]
    changed = {parameter_of(change["option"]): _value(change) for change in relaxation["changes"]}
    return {
        "href": frame.same("/", **changed),
        "text": ", ".join(_text(change, t) for change in relaxation["changes"]),
        "gives": t(
            "none.gives",
            name=gives["instance_type"],
            usd=format_usd(gives["total_usd_per_hour"]),
            lower=lower_rate(gives["lower"]),
            p10=lower_name(confidence),
        ),
    }


def parameter_of(option: str) -> str:
    """'--max-price' -> 'max_price'."""
    return option.lstrip("-").replace("-", "_")


def _value(change: Mapping[str, Any]) -> str | None:
    """What the parameter becomes; None takes it out."""
    return change["to"] or None


def _text(change: Mapping[str, Any], t: Texts) -> str:
    name = parameter_of(change["option"])
    field = t.known("field." + name, change["option"])
    if not change["to"]:
        return t("none.without", field=field)
    return t("none.change", field=field, value=change["to"])


EXAMPLE = {"task": "inference", "model": "googlenet", "target_throughput": "500"}

router = APIRouter(include_in_schema=False)


def _find(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    every = asked.get("rejected") == "all"
    question = question_of(Recommend, asked).replace(pareto=True, explain_rejected=every)
    document = recommended(context, question).message_document()
    values = answer_view(document, frame)
    if values["pick"]:
        values["what_if"] = what_if_of(context, document["recommendation"], frame)
    return values


PAGE = QuestionPage("find.html", "answer.html", _find, EXAMPLE, frozenset(("task", "model")))


@router.get("/")
async def find(request: Request) -> Response:
    """The question and its answer; one about a language model has a page of its own."""
    if request.query_params.get("task") in set(LanguageTask):
        return RedirectResponse(f"/language?{request.url.query}")
    return await PAGE.answer(request)
