"""`/`: the form of a recommendation question with its answer; `/export`: the answer as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.answers.networks import recommended
from advisor.answers.reporting.formats import FORMATS, ExportRequest, file_name, format_named
from advisor.domain.words import LanguageTask
from advisor.errors import AdvisorError
from advisor.messages import format_target, format_usd
from advisor.questions.commands import RECOMMEND
from advisor.questions.language import CompareGeneration
from advisor.questions.network import Recommend
from advisor.render import sentences
from advisor.render.blocks import Paragraph, Part, Table, lower_rate, translated
from advisor.render.charts import front_picture
from advisor.render.export import FORMATS as EXPORTS
from advisor.render.export import OF_SERVERS
from advisor.render.export.serving import FORMATS as SERVING_EXPORTS
from advisor.render.facts import covers_clouds, spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.records import candidate_block
from advisor.render.text import lower_name
from advisor.render.views.brief import brief_leaves, trial_leaves
from advisor.render.views.details import Room, front_table, notes_parts, other_parts, steps_parts
from advisor.render.views.specs import hours_message, run_cost_message, spec_facts, time_message
from advisor.service.answers import context_of, threads_of
from advisor.service.page import specs
from advisor.service.page.frame import Frame, spelled
from advisor.service.page.predict import what_if_of
from advisor.service.page.question import (
    QuestionPage,
    question_of,
    speaks,
    trouble_view,
    with_task,
    words_of_spec,
    workload_fields,
)
from advisor.service.problems import Problem

Record = Mapping[str, Any]
# How many specs the link to /compare names; its form takes one more.
COMPARED = 3
MOST_RELAXATIONS = 6
_ROOM = Room(1, rows=25)
_STEM = "recommendation"
_MODEL = "meta-llama/Llama-3.1-8B"
# Export formats that cannot start a server of language models.
_NOT_OF_LANGUAGE = tuple(name for name in EXPORTS if name not in SERVING_EXPORTS)


def _answer(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    return (_language if speaks(words) else _network)(context, words, frame)


def _network(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    every, t = words.get("rejected") == "all", frame.texts
    question = question_of(Recommend, words).replace(pareto=True, explain_rejected=every)
    answer = recommended(context, question)
    document = answer.message_document()
    request, pick = document["request"], document["recommendation"]
    target, clouds = request["target_throughput"], covers_clouds(document)
    values = _shared(document, target, frame)
    if rejected := document["rejected"]:  # the table of rejected offers with reasons
        table, catalog = Table(sentences.rejected_columns(t, clouds=clouds), rejected), document["catalog"]
        more = len(rejected) < catalog["offers_rejected"]
        values["rejected"] = {"catalog": catalog, "table": table, "more": more}
    if pick is None:
        nearest = document["nearest"]
        view = specs.spec_view(nearest, target, t) | _bound(nearest, t) if nearest else None
        said = {"nearest": view, "asked": document["asked"], "said": t("none.title")}
        return values | said | {"parts": list(notes_parts(document, t))}
    values["pick"] |= _bound(pick, t)
    settings = Table(sentences.settings_columns(document["other_settings"], t), document["other_settings"])
    detail = [
        Part(t("detail.title"), [spec_facts(pick, request, t)]),
        Part(t("settings.title"), [settings, Paragraph(t("settings.note"), "note")]),
    ]

    def href(spec: Record) -> str:
        return frame.here("/predict", **words_of_spec(frame, specs.spec_fields(spec)))

    others = [*document["alternatives"], *map(candidate_block, answer.result.pareto)]
    return values | {
        "headline": _headline(request, t),
        "parts": [*(detail if settings.records else detail[:1]), *_assumed(document, t)],
        "alternatives": _alternatives(document, frame, href),
        "charts": [specs.price_chart(pick, others, target, frame, href)],
        "what_if": what_if_of(context, pick, frame),
    }


def _assumed(document: Record, t: Texts) -> Iterator[Part]:
    """The notes without the warnings, which the answer's card shows."""
    return notes_parts({**document, "warnings": ()}, t)


def _language(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    t = frame.texts
    document = ask.recommend(context, question_of(RECOMMEND, words)).message_document()
    pick, request = document["recommendation"], document["request"]
    values = _shared(document, request.get("target_output_tokens_per_second"), frame)
    if pick is None:
        sentence = sentences.headline(document, t)
        others = [*other_parts(document, t, _ROOM), *notes_parts(document, t)]
        return values | {"sentence": sentence, "said": sentence, "parts": others}
    values["pick"] |= {"spans": _times(pick, request, t) if "serving" in pick else _run(pick, request, t)}
    detail = Part(t("detail.title"), [spec_facts(pick, request, t)])
    left_out = list(other_parts(document, t, _ROOM._replace(alternatives=0)))
    chart = specs.price_chart(
        pick, document["alternatives"], None, frame, lambda row: frame.same("/", gpu=row["gpu"])
    )
    return values | {
        "headline": t("language.reaches", task=t(f"task.{request['task']}"), model=request["model"]),
        "parts": [detail, *steps_parts(document, t), *_assumed(document, t), *left_out],
        "alternatives": _alternatives(document, frame, lambda spec: frame.same("/", gpu=spec["gpu"]["name"])),
        "charts": [*_front(document, frame), chart],
    }


def _shared(document: Record, target: float | None, frame: Frame) -> dict[str, Any]:
    t, pick, confidence = frame.texts, document["recommendation"], document["request"]["confidence"]
    values = {
        "problem": None,
        "pick": None,
        "parts": (),
        "rejected": None,
        "percentiles": specs.percentiles(confidence),
        "price_call": list(sentences.price_call_leaves(document, t)),
    }
    if pick is None:
        relax = document["relax"][:MOST_RELAXATIONS]
        return values | {"ways": [_relaxed(relaxation, confidence, frame) for relaxation in relax]}
    view = specs.spec_view(pick, target, t) | {"spans": (), "stages": ()}
    said = t(
        "answer.said",
        name=view["name"],
        usd=format_usd(view["usd_per_hour"]),
        lower=lower_rate(view["lower"]),
        p10=lower_name(confidence),
        unit=view["unit"],
    )
    facts, trust, *_ = brief_leaves(document, t, spelled(t))
    trials = [leaf.text for leaf in trial_leaves(document, t)]
    return values | {
        "pick": view,
        "said": said,
        "facts": facts,
        "notes": [trust],
        "trials": list(zip(trials[::2], trials[1::2], strict=True))[:1],
        "warnings": document["warnings"],
        "exports": _export_links(frame),
        "compare_href": _compare_href(document, frame),
        "what_if": None,
    }


def _headline(request: Record, t: Texts) -> str:
    task = t("task." + request["task"])
    if request["target_throughput"] is None:
        ends = request["epochs"] or request["samples"]
        key = "answer.cheapest_run" if ends else "answer.cheapest"
        return t(key, model=request["model"], task=task)
    rate = format_target(request["target_throughput"])
    unit = f"{request['dataset']['sample']}s/s"
    unit = t.known(f"unit.{unit}", unit)
    return t("answer.reaches", model=request["model"], task=task, rate=rate, unit=unit)


def _bound(spec: Record, t: Texts) -> dict[str, Any]:
    return {"bottleneck": sentences.bound_name(spec, t), "stages": specs.stage_views(spec, t)}


def _alternatives(document: Record, frame: Frame, href: Callable[[Record], str]) -> Table | None:
    """The table of alternatives, each linked by `href`; None if there are none."""
    t, others = frame.texts, document["alternatives"]
    if not others:
        return None
    home, clouds = document["recommendation"]["region"], covers_clouds(document)
    name, *columns = sentences.alternative_columns(others, t, home, clouds=clouds)
    return Table([name._replace(link=href), *columns], others)


def _compare_href(document: Record, frame: Frame) -> str | None:
    """A link that compares the chosen spec with alternatives in its region and market; None without any."""
    first = document["recommendation"]
    location = {name: first[name] for name in ("cloud", "region", "market")}
    every = (first, *document["alternatives"])
    alike = [spec for spec in every if spec["count"] == 1 and location.items() <= spec.items()]
    task = document["request"]["task"]
    if task == LanguageTask.FINETUNING:
        return None
    if task == LanguageTask.GENERATION:
        types = list(dict.fromkeys(spec["instance_type"] for spec in alike))[:COMPARED]
        fields = CompareGeneration.fields
        words = {name: value for name, value in frame.words if name in fields and name != "disk"}
        href = frame.here("/compare", **{**words, **location, "instance": ",".join(types)})
        return href if len(types) > 1 else None
    parts = [specs.spec_fields(spec) for spec in alike[:COMPARED]]
    specs_text = ",".join(f"{part['instance']} {part['disk']} {part['batch_size']}" for part in parts)
    href = frame.here("/compare", **workload_fields(frame), **location, spec=specs_text)
    return href if len(parts) > 1 else None


def _relaxed(relaxation: Record, confidence: float, frame: Frame) -> dict[str, str]:
    t, gives = frame.texts, relaxation["gives"]
    # The option '--max-price' is the parameter `max_price`; without a new value it is removed.
    changes = [
        (change["option"].lstrip("-").replace("-", "_"), change["option"], change["to"] or None)
        for change in relaxation["changes"]
    ]
    texts = []
    for name, option, value in changes:
        field = t.known("field." + name, option)
        texts.append(t("none.change", field=field, value=value) if value else t("none.without", field=field))
    return {
        "href": frame.same(frame.request.url.path, **{name: value for name, _, value in changes}),
        "text": ", ".join(texts),
        "gives": t(
            "none.gives",
            name=spec_name(gives),
            usd=format_usd(gives["total_usd_per_hour"]),
            lower=lower_rate(gives["lower"]),
            p10=lower_name(confidence),
        ),
    }


def _times(spec: Record, request: Record, t: Texts) -> list[dict[str, Any]]:
    spans = []
    for name in ("ttft", "tpot"):
        seconds = spec["serving"]["rates"][f"{name}_seconds"]
        ms = {bound: value and 1000 * value for bound, value in seconds.items()}
        text = translated(time_message(seconds, request["confidence"]), t)
        spans.append(_span(t(f"lm.{name}"), text, ms, request[f"max_{name}_ms"], t))
    return spans


def _run(spec: Record, request: Record, t: Texts) -> list[dict[str, Any]]:
    run, confidence = spec["run"], request["confidence"]
    time = translated(hours_message(run["hours"], confidence), t)
    cost = translated(run_cost_message(run, confidence), t)
    return [
        _span(t("lm.hours"), time, run["hours"], request["max_hours"], t),
        _span(t("lm.run_cost"), cost, run["usd"], request["max_run_usd"], t),
    ]


def _span(name: str, text: str, span: Record, limit: float | None, t: Texts) -> dict[str, Any]:
    """A time or a cost with its bar; no bar if the upper bound is unknown."""
    bar = None if span["upper"] is None else specs.interval_bar(span, limit, t("language.limit"))
    return {"name": name, "text": text, "bar": bar}


def _front(document: Record, frame: Frame) -> Iterator[dict[str, Any]]:
    """The front of latency and throughput as picture and table; points link to their number of users."""
    front, t = document.get("serving", {}).get("front", ()), frame.texts
    if len(front) < 2:
        return

    def href(point: Record) -> str:
        users = max(1, round(point["concurrency"]))
        return frame.same("/", users=users, target_requests_per_s=None)

    picture = specs.picture_of(lambda width: front_picture(front, document["recommendation"], t, width, href))
    table = front_table(front, document, t)
    note = f"{picture['wide'].note} {t('language.follow_users')}"
    yield {"title": t("lm.front"), "picture": picture, "note": note, "table": table}


def _export_links(frame: Frame) -> list[dict[str, str]]:
    serves = dict(frame.words).get("task") == LanguageTask.GENERATION
    spared = _NOT_OF_LANGUAGE if serves else OF_SERVERS
    return [
        {
            "name": name.removeprefix("report-"),
            "kind": "report" if kind.report else "answer",
            "href": frame.same("/export", format=name),
            "file": file_name(_STEM, name),
        }
        for name, kind in FORMATS.items()
        if name not in spared
    ]


PAGE = QuestionPage(
    "find.html",
    "answer.html",
    _answer,
    {"model": "resnet50", "target_throughput": "1000"},
    frozenset(("task", "model")),
)
router = APIRouter(include_in_schema=False)
router.get("/")(PAGE.answer)


@router.get("/language")
@router.get("/language/compare")
async def language(request: Request) -> Response:
    """Redirect URLs of earlier versions to the page that now takes networks and language models."""
    query = request.url.query if "model" in request.query_params else f"model={_MODEL}&{request.url.query}"
    return RedirectResponse(f"{request.url.path.removeprefix('/language') or '/'}?{query.rstrip('&')}")


@router.get("/export")
async def export(request: Request) -> Response:
    """The answer as the file that /v1/reports writes. Errors are shown as a page."""
    return await threads_of(request).run(_export, request, slow=True)


def _export(request: Request) -> Response:
    frame = Frame(request)
    words = with_task(context_of(request), dict(frame.words))
    name = words.pop("format", "json")
    try:
        kind, question = format_named(name), question_of(RECOMMEND, words)
        content = kind.write(ExportRequest(context_of(request), question, frame.texts.language))
    except (AdvisorError, Problem) as error:
        values, status = trouble_view(error, frame)
        return frame.page("problem.html", status=status, **values)
    headers = {"Content-Disposition": f'attachment; filename="{file_name(_STEM, name)}"'}
    return Response(content, media_type=kind.media_type, headers=headers)
