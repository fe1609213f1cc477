"""A report's document as blocks, in the order of a reader's questions: what HTML, PDF and Markdown
show of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from advisor.domain import HOURS_PER_MONTH
from advisor.render.content import (
    Block,
    Column,
    Command,
    English,
    Facts,
    Items,
    Leaf,
    Look,
    Page,
    Paragraph,
    Part,
    Section,
    Table,
    translated,
)
from advisor.render.document import is_language
from advisor.render.document_names import covers_clouds, spec_name
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.i18n.filters import plain
from advisor.render.language.page import answer_parts, detail_parts, language_parts
from advisor.render.price_parts import price_call_leaves
from advisor.render.sizing.columns import columns_of, rate_columns
from advisor.render.sizing.details import Room, details, notes_parts, place_parts, price_part
from advisor.render.sizing.pictures import totals_picture
from advisor.render.sizing.sentences import (
    answer_sentences,
    asked_sentence,
    borderline_sentence,
    disk_name,
    relax_sentence,
    sample_name,
    stage_name,
    totals_sentence,
    unit_name,
)
from advisor.units import format_usd

Record = Mapping[str, Any]


# A file keeps within 1.5 MB, however many workloads it has.
FILE = (
    Room(10, specs=16, rejected=25, regions=40, turns=6),
    Room(50, rejected=2, regions=3, turns=2, alternatives=3, batches=False),
    Room(inf, brief="totals.brief"),
)
# What is pasted into a comment keeps within what a comment may have.
COMMENT = (
    Room(inf, specs=12, rejected=8, regions=8, turns=4, alternatives=8),
    Room(inf, costs=False, brief="markdown.brief"),
)


def report_page(document: Record, language: str, room: Room) -> Page:
    """The blocks of a report, as many as there is room for."""
    t = report_texts(language)
    sections, hours = document["workloads"], document["totals"]["hours_per_month"]
    blocks: list[Block] = [_totals(document, t, room)] if len(sections) > 1 else []
    for number, section in enumerate(sections, 1):
        written = _language if is_language(section["recommendation"]) else _network
        parts = list(written(section, hours, t, room))
        blocks.append(Section(section["name"], f"w{number}", parts))
    return Page(t("kicker_of", date=document["as_of"]), document["title"], [*blocks, _again(document, t)])


def short_parts(section: Record, language: str = "en") -> Iterator[Leaf | Part]:
    """One answer with its chart, as a notebook shows it."""
    t, answer = report_texts(language), section["recommendation"]
    if is_language(answer):
        yield from language_parts(answer, t, rejected=0)
        return
    room = Room(1, specs=8)
    yield from _answer(section, HOURS_PER_MONTH, t, room)
    yield price_part(section, t, room)
    yield from notes_parts(answer, t)


def _totals(document: Record, t: Texts, room: Room) -> Section:
    sections, totals = document["workloads"], document["totals"]
    anchors = {id(section): f"#w{number}" for number, section in enumerate(sections, 1)}
    confidences = {section["answer"]["confidence"] for section in sections}

    def of_spec(name: str) -> Callable[[Record], Any]:
        return lambda section: (_answered(section) or {}).get(name)

    columns = [
        Column(
            t("totals.workload"),
            lambda section: section["name"][:80],
            link=lambda section: anchors[id(section)],
        ),
        *columns_of(
            t,
            ("instance", lambda section: _total_name(section, t), Look.NAME),
            ("disk", lambda section: _total_disk(section, t), Look.LONG),
        ),
        rate_columns(t, confidences.pop() if len(confidences) == 1 else None)[0]._replace(
            of=of_spec("lower")
        ),
        *columns_of(t, ("bound", lambda section: _total_stage(section, t))),
        *_unit_columns(sections, t),
        Column(t("table.per_hour"), of_spec("usd_per_hour"), Look.USD),
        Column(t("table.per_month"), of_spec("usd_per_month"), Look.USD),
    ]
    total: list[str] = []
    if totals["usd_per_hour"] is not None:
        sums = [format_usd(totals[name]) for name in ("usd_per_hour", "usd_per_month")]
        total = [t("totals.all"), *[""] * (len(columns) - 1 - len(sums)), *sums]
    blocks: list[Any] = [Paragraph(totals_sentence(totals, t), "answer")]
    blocks += [Paragraph(t(room.brief), "note")] if room.brief else []
    blocks.append(Table(columns, sections, total=total))
    chart = totals_picture([section for section in sections if _answered(section)], t)
    blocks += [Part(t("totals.chart"), [chart])] if chart else []
    return Section(t("totals.title"), "", blocks)


def _answered(section: Record) -> Record | None:
    spec: Record | None = section["answer"]["spec"]
    return spec if section["answer"]["status"] == "answered" else None


def _total_name(section: Record, t: Texts) -> str:
    spec = _answered(section)
    if spec is None:
        return t("totals.none_fits")
    cloud = f" ({spec['cloud']})" if covers_clouds(section["recommendation"]) else ""
    return f"{spec_name(spec)}{cloud}"


def _total_disk(section: Record, t: Texts) -> str | None:
    spec = _answered(section)
    return disk_name(spec["disk"], t) if spec else None


def _unit_columns(sections: Sequence[Record], t: Texts) -> list[Column]:
    """What the rates count, where that is not the same everywhere."""
    units = {(_answered(section) or {}).get("unit") for section in sections} - {None}
    if len(units) < 2:
        return []
    return columns_of(t, ("unit", lambda one: unit_name(one, t) if _answered(one) else None))


def _total_stage(section: Record, t: Texts) -> str | None:
    spec = _answered(section)
    return stage_name(spec["bottleneck"], t) if spec else None


def _network(section: Record, hours: float, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    yield from _answer(section, hours, t, room)
    yield from () if room.brief else details(section, t, room)


def _language(section: Record, _hours: float, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    """The section of a language model: its own parts among those that every section has."""
    answer = section["recommendation"]
    yield Paragraph(asked_sentence(section, t))
    yield from answer_parts(answer, t)
    if not section["complete"] and section["answer"]["spec"]:
        yield Paragraph(t("lm.saved"), "note")
    if section["costs"] and section["costs"]["choices"] and room.costs:
        yield _costs(section, t)
    if not room.brief:
        yield from detail_parts(answer, t, room.rejected)
        yield from place_parts(section, t, room)


def _answer(section: Record, hours: float, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    answer = section["recommendation"]
    yield Paragraph(asked_sentence(section, t))
    yield from price_call_leaves(answer, t)
    first, *others = answer_sentences(section, t, hours)
    yield Paragraph(first, "answer")
    for sentence in others:
        yield Paragraph(sentence, "note")
    if not section["complete"] and section["answer"]["spec"]:
        yield Paragraph(t("answer.saved"), "note")
    if answer["relax"]:
        clouds = covers_clouds(answer)
        ways = [
            relax_sentence(way, section["answer"]["confidence"], t, clouds=clouds) for way in answer["relax"]
        ]
        yield Part(t("relax.title"), [Items(ways)])
    if section["costs"] and section["costs"]["choices"] and room.costs:
        yield _costs(section, t)
    for call in answer["close_calls"][:1] if not room.brief else ():
        target = section["answer"]["target_throughput"]
        sentence = borderline_sentence(call, target, t, clouds=covers_clouds(answer))
        command = Command(call["trial"]["command"])
        yield Part(t("close.title"), [Paragraph(sentence), command])


def _costs(section: Record, t: Texts) -> Part:
    costs, counted = section["costs"], sample_name(section["answer"]["spec"]["unit"])
    columns = columns_of(
        t,
        ("paying", lambda choice: _paying(choice, t)),
        ("per_hour", "usd_per_hour", Look.USD),
        ("per_month", "usd_per_month", Look.USD),
        (f"per_million_{counted}", "usd_per_million_samples", Look.USD),
        ("saving", lambda choice: (choice["saving_percent"] or 0) / 100 or None, Look.SHARE),
        ("kind", lambda choice: t.known("kind." + choice["kind"], choice["kind"])),
        ("as_of", "as_of", Look.DAY),
    )
    million, hours = t(f"million.{counted}"), plain(costs["hours_per_month"])
    note = t("costs.note", hours=hours, million=million)
    table = Table(columns, costs["choices"], lambda choice: bool(choice["asked"]))
    return Part(t("costs.title"), [table, Paragraph(note, "note")])


def _paying(choice: Record, t: Texts) -> str:
    market = t.known("market." + choice["market"], choice["market"])
    return f"{market} ({translated(choice['terms'], t)})" if choice["terms"] else market


def _model_text(model: Record, t: Texts) -> str:
    return t(
        "again.model_value",
        id=model["id"],
        trained=t.render(model["trained_on"]),
        error=plain(model["error_percent"]),
        sha=model["sha256"],
    )


def _again(document: Record, t: Texts) -> Section:
    """What gives the same report again, with the predictors that answered."""
    block = document["reproducibility"]
    networks = not all(is_language(one["recommendation"]) for one in document["workloads"])
    catalog, rows = block["catalog"], block["measurements"]
    facts = [
        *(("inputs", f"{file['name']}, sha256 {file['sha256']}") for file in block["inputs"]),
        ("catalog", t("again.catalog_value", date=catalog["as_of"], sha=catalog["sha256"])),
        *([("model", _model_text(block["performance_model"], t))] if networks else []),
        *(
            ("model", t("again.language_value", id=model["id"], trained=model["trained_on"]))
            for model in block.get("language_predictors", ())
        ),
        ("measurements", t("again.measurements_value", rows=rows["rows"], sha=rows["bundled_sha256"])),
        *([("ids", " ".join(rows["trial_ids"]))] if rows["trial_ids"] else []),
        ("versions", ", ".join(f"{name} {value}" for name, value in block["versions"].items())),
        ("sources", English("; ".join(catalog["sources"]))),
    ]
    pairs = [(t(f"again.{name}"), text) for name, text in facts]
    return Section(t("again.title"), "again", [Command(block["command"]), Facts(pairs)])
