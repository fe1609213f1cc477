"""`/`: a question by its fields, and the answer under its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from advisor.answers.context import Context
from advisor.answers.networks import recommended
from advisor.domain.generation import LanguageTask
from advisor.questions.models import Recommend
from advisor.render.blocks import candidate_block
from advisor.render.content import Column, Table
from advisor.render.document_names import covers_clouds, spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.render.price_parts import price_call_leaves
from advisor.render.sizing.columns import alternative_columns, rejected_columns, settings_columns
from advisor.render.sizing.sentences import borderline_sentence
from advisor.render.text import lower_name
from advisor.service.page.beside import spec_word
from advisor.service.page.export import export_links
from advisor.service.page.frame import Frame
from advisor.service.page.pictures import price_chart, row_fields
from advisor.service.page.predict import what_if_of
from advisor.service.page.question import QuestionPage, question_of, workload_fields
from advisor.service.page.specs import percentiles, spec_fields, spec_view
from advisor.units import format_target, format_usd

# Specs that the link compares; their form takes one more.
COMPARED = 3


def answer_view(document: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    """Values of `answer.html` for one answer, or for the lack of one."""
    t, request = frame.texts, document["request"]
    target, pick = request["target_throughput"], document["recommendation"]
    shared = {
        "problem": None,
        "target": target,
        "in_full": document["asked"],
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
        t("table.action"),
        lambda _spec: t("nav.predict"),
        link=lambda spec: what_if_href(spec, frame),
        label=lambda spec: t("others.what_if", name=spec_name(spec)),
    )
    columns = alternative_columns(t, home, confidence, clouds=covers_clouds(document))
    return Table([*columns, action], specs)


def what_if_href(spec: Mapping[str, Any], frame: Frame) -> str:
    """The page that changes this spec's vCPUs, RAM and disk."""
    return frame.here("/predict", **workload_fields(frame), **spec_fields(spec))


def _compare_href(document: Mapping[str, Any], frame: Frame) -> str | None:
    """The chosen spec beside the first alternatives, where they are of one place."""
    specs = [document["recommendation"], *document["alternatives"]]
    place = {name: specs[0][name] for name in ("cloud", "region", "market")}
    alike = [spec for spec in specs if spec["count"] == 1 and place.items() <= spec.items()]
    if len(alike) < 2:
        return None
    words = ",".join(spec_word(spec) for spec in alike[:COMPARED])
    return frame.here("/compare", **workload_fields(frame), **place, spec=words)


MOST = 6


def ways_out(document: Mapping[str, Any], frame: Frame) -> list[dict[str, str]]:
    """The document's `relax`: the changed question as a link, and what it gives."""
    confidence = document["request"]["confidence"]
    return [_way(relaxation, confidence, frame) for relaxation in document["relax"][:MOST]]


def _way(relaxation: Mapping[str, Any], confidence: float, frame: Frame) -> dict[str, str]:
    t, gives = frame.texts, relaxation["gives"]
    changed = {parameter_of(change["option"]): _value(change) for change in relaxation["changes"]}
    return {
        "href": frame.same(frame.request.url.path, **changed),
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
    found = recommended(context, question)
    document = found.message_document()
    values = answer_view(document, frame)
    pick = document["recommendation"]
    if pick:
        front = [candidate_block(candidate) for candidate in found.result.pareto]
        values["chart"] = price_chart(
            pick,
            [*document["alternatives"], *front],
            values["target"],
            frame,
            lambda row: frame.here("/predict", **workload_fields(frame), **row_fields(row)),
        )
        values["what_if"] = what_if_of(context, pick, frame)
    return values


PAGE = QuestionPage("find.html", "answer.html", _find, EXAMPLE, frozenset(("task", "model")))


@router.get("/")
async def find(request: Request) -> Response:
    """The question and its answer; one about a language model has a page of its own."""
    if request.query_params.get("task") in set(LanguageTask):
        return RedirectResponse(f"/language?{request.url.query}")
    return await PAGE.answer(request)
