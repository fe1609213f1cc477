"""`/language`: a question about a language model by its fields, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.domain.generation import KvPrecision, LanguageTask, LlmEngine, LlmMethod, LlmPrecision
from advisor.models.language.configs import bundled_language_models
from advisor.questions.commands import RECOMMEND
from advisor.questions.language import CompareGeneration
from advisor.questions.traffic import KNOWN_TRAFFIC
from advisor.render.content import Table
from advisor.render.document_names import spec_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.language.page import (
    MOST_REJECTED,
    answer_sentence,
    front_table,
    other_parts,
    span_text,
    spec_facts,
    steps_parts,
)
from advisor.render.language.picture import front_picture
from advisor.render.price_parts import by_price, price_call_leaves
from advisor.service.page.export import export_links
from advisor.service.page.find import ways_out
from advisor.service.page.frame import Frame
from advisor.service.page.pictures import Picture, picture_of, price_chart
from advisor.service.page.question import QuestionPage, choices_of, question_of
from advisor.service.page.specs import (
    IntervalBar,
    interval_bar,
    interval_text,
    percentiles,
    place_text,
    price_text,
    told_view,
)
from advisor.units import format_hours, format_usd

EXAMPLE = {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": "8"}
# Types that the link compares; their form takes more.
COMPARED = 3
USUAL = {"cloud": "aws", "market": "on-demand", "task": "generation"}

router = APIRouter(include_in_schema=False)


def language_choices(context: Context, asked: Mapping[str, str], t: Texts) -> dict[str, Any]:
    """Values and labels of the fields; what is left open has an empty value."""
    lists = {
        "precision": LlmPrecision,
        "kv_precision": KvPrecision,
        "engine": LlmEngine,
        "traffic": KNOWN_TRAFFIC,
        "method": LlmMethod,
    }
    return choices_of(context, asked, t) | {
        "task": [(str(task), t(f"task.{task}")) for task in LanguageTask],
        "model": list(bundled_language_models().names()),
        **{
            name: [("", t("language.usual")), *((str(one), str(one)) for one in values)]
            for name, values in lists.items()
        },
    }


def _answer(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    task = asked.get("task", USUAL["task"])
    found = ask.recommend(context, question_of(RECOMMEND, {**asked, "task": task}))
    document, t = found.message_document(), frame.texts
    pick, request = document["recommendation"], document["request"]
    shared = {
        "problem": None,
        "percentiles": percentiles(request["confidence"]),
        "prices": list(price_call_leaves(document, t)),
        "others": other_parts(document, t, MOST_REJECTED),
    }
    if pick is None:
        sentence = answer_sentence(document, t)
        return shared | {
            "pick": None,
            "said": sentence,
            "sentence": sentence,
            "ways": ways_out(document, frame),
        }
    view = _spec_view(pick, request, t)
    return shared | {
        "pick": view,
        "said": f"{view['name']}, {format_usd(view['usd_per_hour'])}/h. {view['bounds']}",
        "headline": t("language.reaches", task=t(f"task.{request['task']}"), model=request["model"]),
        "facts": spec_facts(pick, t).pairs,
        "front": _front(document, frame),
        "steps": steps_parts(document, t),
        "chart": price_chart(
            pick, document["alternatives"], None, frame, lambda row: frame.same("/language", gpu=row["gpu"])
        ),
        "exports": export_links(frame),
        "compare_href": _compare_href(document, frame),
    }


def _compare_href(document: Mapping[str, Any], frame: Frame) -> str | None:
    """The chosen type beside the first other ones of its place, under the same load."""
    specs = [document["recommendation"], *document["alternatives"]]
    place = {name: specs[0][name] for name in ("cloud", "region", "market")}
    alike = [spec for spec in specs if spec["count"] == 1 and place.items() <= spec.items()]
    types = list(dict.fromkeys(spec["instance_type"] for spec in alike))[:COMPARED]
    if len(types) < 2 or document["request"]["task"] != LanguageTask.GENERATION:
        return None
    fields = CompareGeneration.fields
    words = {name: value for name, value in frame.asked if name in fields and name != "disk"}
    return frame.here("/language/compare", **{**words, **place, "instance": ",".join(types)})


def _spec_view(spec: Mapping[str, Any], request: Mapping[str, Any], t: Texts) -> dict[str, Any]:
    """What is told of the recommended spec, its bars included."""
    rates = spec["predicted"]["throughput"]
    return {
        "name": spec_name(spec),
        **told_view(spec, t),
        "place": place_text(spec, t),
        "usd_per_hour": spec["price"]["total_usd_per_hour"],
        "price_told": price_text(spec["price"], t),
        "median": rates["median"],
        "bar": interval_bar(rates, request.get("target_output_tokens_per_second"), t("chart.target")),
        "bar_label": interval_text(spec["predicted"], None, t),
        "spans": _times(spec, request, t) if "serving" in spec else _run(spec, request, t),
    }


class Span(NamedTuple):
    """A time or a cost with its bar; there is none where its upper bound is not known."""

    name: str
    text: str
    bar: IntervalBar | None


def _times(spec: Mapping[str, Any], request: Mapping[str, Any], t: Texts) -> list[Span]:
    """Of a request that is served."""
    rates, spans = spec["serving"]["rates"], []
    for key, of, limit in (
        ("lm.ttft", "ttft_seconds", "max_ttft_ms"),
        ("lm.tpot", "tpot_seconds", "max_tpot_ms"),
    ):
        ms = {bound: seconds and 1000 * seconds for bound, seconds in rates[of].items()}
        spans.append(Span(t(key), span_text(rates[of], t), _bar(ms, request[limit], t)))
    return spans


def _run(spec: Mapping[str, Any], request: Mapping[str, Any], t: Texts) -> list[Span]:
    """Of a whole fine-tuning."""
    run, spans = spec["run"], []
    for key, of, limit in (("lm.hours", "hours", "max_hours"), ("lm.run_cost", "usd", "max_run_usd")):
        median, most = run[of]["median"], run[of]["upper"]
        if of == "hours":
            told = {"median": format_hours(median), "most": format_hours(most, up=True)}
        else:
            told = {"median": format_usd(median), "most": format_usd(most)}
        sure = [] if of == "hours" else by_price(run, "run.by_price", t)
        text = t.listed([t("detail.span", **told), *sure])
        spans.append(Span(t(key), text, _bar(run[of], request[limit], t)))
    return spans


def _bar(span: Mapping[str, Any], limit: float | None, t: Texts) -> IntervalBar | None:
    return None if span["upper"] is None else interval_bar(span, limit, t("language.limit"))


class Front(NamedTuple):
    """Latency against throughput, and its points as a table."""

    picture: Picture
    note: str
    table: Table


def _front(document: Mapping[str, Any], frame: Frame) -> Front | None:
    """A place leads to the question with as many users."""
    front, t = document.get("serving", {}).get("front", ()), frame.texts
    if len(front) < 2:
        return None

    def href(point: Mapping[str, Any]) -> str:
        users = max(1, round(point["concurrency"]))
        return frame.same("/language", users=users, target_requests_per_s=None)

    picture = picture_of(lambda width: front_picture(front, document["recommendation"], t, width, href))
    return Front(picture, picture.wide.note, front_table(front, document["request"], t))


PAGE = QuestionPage(
    "language.html",
    "language_answer.html",
    _answer,
    EXAMPLE,
    frozenset(("task", "model")),
    usual=USUAL,
    choices=language_choices,
)
router.get("/language")(PAGE.answer)
