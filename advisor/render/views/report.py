"""A report's document as blocks, in the order of a reader's questions: what HTML, PDF, Markdown and
notebooks show of it, and the service's page of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from advisor.render.blocks import (
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
    plain,
    translated,
)
from advisor.render.charts import totals_picture
from advisor.render.document import is_language
from advisor.render.facts import covers_clouds, spec_name
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.sentences import (
    asked_sentence,
    basis_sentence,
    borderline_calls,
    borderline_sentence,
    columns_of,
    decision_leaves,
    disk_name,
    headline,
    price_call_leaves,
    rate_columns,
    relax_sentence,
    sample_name,
    stage_name,
    totals_sentence,
    unit_name,
)
from advisor.render.views.details import (
    Room,
    network_parts,
    notes_parts,
    other_parts,
    place_parts,
    price_part,
    serving_parts,
)
from advisor.render.views.specs import spec_facts
from advisor.units import format_usd

Record = Mapping[str, Any]


# A file keeps within 1.5 MB, however many workloads it has.
FILE = (
    Room(10, specs=16, rejected=25, regions=40, turns=6),
    Room(50, rejected=2, regions=2, turns=2, alternatives=2, batches=False),
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
    sections = document["workloads"]
    blocks: list[Block] = [_totals(document, t, room)] if len(sections) > 1 else []
    for number, section in enumerate(sections, 1):
        blocks.append(Section(section["name"], f"w{number}", list(_section(section, t, room))))
    return Page(t("kicker_of", date=document["as_of"]), document["title"], [*blocks, _again(document, t)])


def short_parts(section: Record, language: str = "en") -> Iterator[Leaf | Part]:
    """One answer with its chart, as a notebook shows it."""
    t, answer, room = report_texts(language), section["recommendation"], Room(1, specs=8)
    yield from _answer(section, t, room)
    if is_language(answer):
        yield from (*serving_parts(answer, t), *other_parts(answer, t, room))
    else:
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
            (
                "disk",
                lambda section: disk_name(of_spec("disk")(section), t) if _answered(section) else None,
                Look.LONG,
            ),
        ),
        rate_columns(t, confidences.pop() if len(confidences) == 1 else None)[0]._replace(
            of=of_spec("lower")
        ),
        *columns_of(t, ("bound", lambda section: stage_name(of_spec("bottleneck")(section), t) or None)),
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


def _unit_columns(sections: Sequence[Record], t: Texts) -> list[Column]:
    units = {(_answered(section) or {}).get("unit") for section in sections} - {None}
    if len(units) < 2:
        return []
    return columns_of(t, ("unit", lambda row: unit_name(row, t) if _answered(row) else None))


def _section(section: Record, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    answer = section["recommendation"]
    yield from _answer(section, t, room)
    if room.brief:
        return
    yield from serving_parts(answer, t) if is_language(answer) else network_parts(section, t, room)
    yield from other_parts(answer, t, room)
    yield from notes_parts(answer, t)
    yield from place_parts(section, t, room)


def _answer(section: Record, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    answer, clouds = section["recommendation"], covers_clouds(section["recommendation"])
    yield Paragraph(asked_sentence(section, t))
    yield from price_call_leaves(answer, t)
    yield Paragraph(headline(answer, t), "answer")
    yield from decision_leaves(answer, t)
    spec = answer["recommendation"] or answer["nearest"]
    if spec:
        yield spec_facts(spec, answer["request"], t)
        yield Paragraph(basis_sentence(spec, t), "note")
        yield from () if section["complete"] else [Paragraph(t("answer.saved"), "note")]
    if answer["relax"]:
        confidence = section["answer"]["confidence"]
        relaxed = [relax_sentence(relaxation, confidence, t, clouds=clouds) for relaxation in answer["relax"]]
        yield Part(t("relax.title"), [Items(relaxed)])
    if section["costs"] and section["costs"]["choices"] and room.costs:
        yield _costs(section, t)
    for call in borderline_calls(answer) if not room.brief else ():
        sentence = borderline_sentence(call, section["answer"]["target_throughput"], t, clouds=clouds)
        yield Part(t("close.title"), [Paragraph(sentence), Command(call["trial"]["command"])])


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


def _again(document: Record, t: Texts) -> Section:
    block = document["reproducibility"]
    networks = not all(is_language(row["recommendation"]) for row in document["workloads"])
    catalog, rows, model = block["catalog"], block["measurements"], block["performance_model"]
    fitted = networks and t(
        "again.model_value",
        id=model["id"],
        trained=t.render(model["trained_on"]),
        error=plain(model["error_percent"]),
        sha=model["sha256"],
    )
    facts = [
        *(("inputs", f"{file['name']}, sha256 {file['sha256']}") for file in block["inputs"]),
        ("catalog", t("again.catalog_value", date=catalog["as_of"], sha=catalog["sha256"])),
        *([("model", fitted)] if fitted else []),
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
