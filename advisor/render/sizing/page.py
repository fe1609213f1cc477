"""A report's document as blocks, in the order of a reader's questions: what HTML, PDF and Markdown
show of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from advisor.render.content import (
    Block,
    Chart,
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
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.i18n.filters import plain
from advisor.render.price_parts import price_call_leaves
from advisor.render.sizing.columns import (
    alternative_columns,
    columns_of,
    cost_columns,
    rate_columns,
    rejected_columns,
    settings_columns,
    spec_columns,
)
from advisor.render.sizing.pictures import (
    curves_picture,
    how_known,
    memory_picture,
    price_picture,
    stages_picture,
    totals_picture,
)
from advisor.render.sizing.sentences import (
    answer_sentences,
    asked_sentence,
    borderline_sentence,
    covers_clouds,
    disk_name,
    relax_sentence,
    spec_name,
    stage_name,
    totals_sentence,
)
from advisor.render.text import lower_name, upper_name
from advisor.units import format_mib, format_rate, format_usd

Record = Mapping[str, Any]
# Gains of less than this are nothing, as `explaining` has it.
_NOTHING_PERCENT = 0.05


class Room(NamedTuple):
    """For how many workloads this is, and how many rows of long tables it shows; `brief` says why
    it has neither charts nor tables. The data formats have everything."""

    workloads: float
    specs: int = 0
    rejected: int = 0
    regions: int = 0
    turns: int = 0
    alternatives: int = 100
    batches: bool = True
    costs: bool = True
    brief: str = ""


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
        parts: list[Leaf | Part] = list(_answer(section, hours, t, room))
        parts += [] if room.brief else _details(section, t, room)
        blocks.append(Section(section["name"], f"w{number}", parts))
    return Page(t("kicker_of", date=document["as_of"]), document["title"],
                [*blocks, _again(document["reproducibility"], t)])  # fmt: skip


def _totals(document: Record, t: Texts, room: Room) -> Section:
    sections, totals = document["workloads"], document["totals"]
    anchors = {id(section): f"#w{number}" for number, section in enumerate(sections, 1)}
    confidences = {section["answer"]["confidence"] for section in sections}

    def of_spec(name: str) -> Callable[[Record], Any]:
        return lambda section: (_answered(section) or {}).get(name)

    columns = [
        Column(t("totals.workload"), lambda section: section["name"][:80],
               link=lambda section: anchors[id(section)]),
        *columns_of(
            t,
            ("instance", lambda section: _total_name(section, t), Look.NAME),
            ("disk", lambda section: _total_disk(section, t), Look.LONG),
        ),
        rate_columns(t, confidences.pop() if len(confidences) == 1 else None)[0]._replace(
            of=of_spec("lower")
        ),
        *columns_of(t, ("bound", lambda section: _total_stage(section, t))),
        Column(t("table.per_hour"), of_spec("usd_per_hour"), Look.USD),
        Column(t("table.per_month"), of_spec("usd_per_month"), Look.USD),
    ]  # fmt: skip
    total: list[str] = []
    if totals["usd_per_hour"] is not None:
        sums = [format_usd(totals[name]) for name in ("usd_per_hour", "usd_per_month")]
        total = [t("totals.all"), "", "", "", "", *sums]
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
    return spec_name(spec) if spec else t("totals.none_fits")


def _total_disk(section: Record, t: Texts) -> str | None:
    spec = _answered(section)
    return disk_name(spec["disk"], t) if spec else None


def _total_stage(section: Record, t: Texts) -> str | None:
    spec = _answered(section)
    return stage_name(spec["bottleneck"], t) if spec else None


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
            relax_sentence(way, section["answer"]["confidence"], t, clouds=clouds)
            for way in answer["relax"]
        ]
        yield Part(t("relax.title"), [Items(ways)])
    if section["costs"] and section["costs"]["choices"] and room.costs:
        yield _costs(section["costs"], t)
    for call in answer["close_calls"][:1] if not room.brief else ():
        target = section["answer"]["target_throughput"]
        sentence = borderline_sentence(call, target, t, clouds=covers_clouds(answer))
        command = Command(call["trial"]["command"])
        yield Part(t("close.title"), [Paragraph(sentence), command])


def _costs(costs: Record, t: Texts) -> Part:
    columns = columns_of(
        t,
        ("paying", lambda choice: _paying(choice, t)),
        ("per_hour", "usd_per_hour", Look.USD),
        ("per_month", "usd_per_month", Look.USD),
        ("per_million", "usd_per_million_samples", Look.USD),
        ("saving", lambda choice: (choice["saving_percent"] or 0) / 100 or None, Look.SHARE),
        ("kind", lambda choice: t.known("kind." + choice["kind"], choice["kind"])),
        ("as_of", "as_of", Look.DAY),
    )  # fmt: skip
    note = t("costs.note", hours=plain(costs["hours_per_month"]))
    table = Table(columns, costs["choices"], lambda choice: bool(choice["asked"]))
    return Part(t("costs.title"), [table, Paragraph(note, "note")])


def _paying(choice: Record, t: Texts) -> str:
    market = t.known("market." + choice["market"], choice["market"])
    return f"{market} ({translated(choice['terms'], t)})" if choice["terms"] else market


def _details(section: Record, t: Texts, room: Room) -> Iterator[Part]:
    answer, confidence = section["recommendation"], section["answer"]["confidence"]
    yield Part(t("price.title"), list(_prices(section, confidence, t, room)), detail=True)
    yield Part(t("stages.title"), list(_stages(section["bottleneck"], t)), detail=True)
    yield Part(
        t("settings.title"), list(_settings(answer.get("other_settings", ()), t)), detail=True
    )
    yield Part(t("curves.title"), list(_curves(section, t)), detail=True)
    yield Part(t("sensitivity.title"), list(_sensitivity(section["sensitivity"], t)), detail=True)
    yield Part(t("break.title"), list(_turns(section["break_even"], t, room)), detail=True)
    yield Part(t("memory.title"), list(_memory(section["gpu_memory"], confidence, t, room)),
               detail=True)  # fmt: skip
    if answer["recommendation"]:
        yield Part(t("others.title"), list(_others(answer, confidence, t, room)),
                   detail=True)  # fmt: skip
    yield Part(t("rejected.title"), list(_rejected(answer, t, room)), detail=True)
    yield Part(t("regions.title"), list(_regions(section["regions"], t, room)), detail=True)
    yield Part(t("evidence.title"), list(_evidence(section["evidence"], t)), detail=True)
    yield Part(t("ages.title"), list(_ages(section["data_ages"], t)), detail=True)
    notes = {"warnings": t("warnings.title"), "assumptions": t("assumptions.title")}
    for name, title in notes.items():
        texts = [translated(sentence, t) for sentence in answer[name]]
        if texts:
            yield Part(title, [Items(texts)])
    if section["command"]:
        yield Part(t("again.ask"), [Command(section["command"])])


def _shortened(
    columns: Sequence[Column], records: Sequence[Record], most: int, t: Texts,
    chosen: Callable[[Record], bool] = lambda _record: False, count: int | None = None,
) -> Iterator[Table | Paragraph]:  # fmt: skip
    """A table of the first `most` records, and how many more there are."""
    if most and records:
        yield Table(columns, records[:most], chosen)
    more = (len(records) if count is None else count) - min(most, len(records))
    if more > 0:
        yield Paragraph(t("more.rows", count=f"{more:,}"), "note")


def _is_chosen(record: Record) -> bool:
    return bool(record["chosen"])


def _prices(section: Record, confidence: float, t: Texts, room: Room) -> Iterator[Any]:
    """The chart; what answers first, then the front, by price; the fastest where none answers."""
    rows = list(section["price_throughput"])
    if not rows:
        return
    note = t("price.note", p10=lower_name(confidence), p90=upper_name(confidence))
    yield price_picture(section, t)._replace(note=note)
    if not any(row["answers"] for row in rows):
        rows.sort(key=lambda row: -float(row["lower"]))
    rows.sort(key=lambda row: (not row["chosen"], not row["answers"], not row["on_front"]))
    home = (section["answer"]["spec"] or rows[0])["region"]
    columns = [
        *spec_columns(t, home, clouds=covers_clouds(section["recommendation"])),
        *columns_of(t, ("per_hour", "total_usd_per_hour", Look.USD)),
        *rate_columns(t, confidence),
        *cost_columns(t),
    ]
    yield from _shortened(columns, rows, room.specs, t, _is_chosen)


def _stages(block: Record | None, t: Texts) -> Iterator[Chart]:
    if block and block["stages"]:
        columns = columns_of(
            t,
            ("stage", lambda stage: stage_name(stage["stage"], t)),
            ("alone", "samples_per_second", Look.RATE),
            ("used", "utilization", Look.SHARE),
        )
        table = Table(columns, block["stages"])
        yield stages_picture(block, t)._replace(note=t("stages.note"), table=table)


def _settings(settings: Sequence[Record], t: Texts) -> Iterator[Any]:
    """What amp, compile and the like would bring."""
    if settings:
        yield Table(settings_columns(t), settings)
        yield Paragraph(t("settings.note"), "note")


def _curves(section: Record, t: Texts) -> Iterator[Any]:
    if not section["curves"]:
        return
    ids = {trial for curve in section["curves"].values() for trial in curve["measured"]}
    measured = [row for row in section["measured"] if row["trial_id"] in ids]
    yield curves_picture(section, t)._replace(
        note=t("curves.note" if measured else "curves.note_none")
    )
    columns = columns_of(
        t,
        ("measured_at", lambda row: t(
            "measured.at", vcpus=plain(row["vcpus"]), ram=format_mib(row["memory_mib"]),
            disk=row["disk_type"], batch=row["batch_size"], data=row["dataset"])),
        ("rate", "samples_per_second", Look.RATE),
        ("what", lambda row: f"{t('curves.' + how_known(row))} "
                             f"({row['accelerator']}, {row['cpu_model']})"),
        ("date", lambda row: row["measured_on"] or t("unknown"), Look.DAY),
    )  # fmt: skip
    if measured:
        yield Table(columns, measured)


def _sensitivity(gains: Sequence[Record], t: Texts) -> Iterator[Table]:
    columns = columns_of(
        t,
        ("resource", lambda gain: translated(gain["step"], t)),
        ("brings", lambda gain: _brings(gain, t)),
        ("bound", lambda gain: stage_name(gain["bottleneck"], t)),
        ("flat", lambda gain: _flat(gain, t)),
    )
    if gains:
        yield Table(columns, gains)


def _brings(gain: Record, t: Texts) -> str:
    rate, share = gain["samples_per_second"], gain["percent"]
    if abs(share) < _NOTHING_PERCENT:
        return t("sensitivity.nothing")
    if rate < 0:
        return f"\u2212{format_rate(-rate)}/s (\u2212{format_rate(-share)} %)"
    return t("sensitivity.brings", rate=format_rate(rate), percent=format_rate(share))


def _flat(gain: Record, t: Texts) -> str:
    amount = gain["flat_after"]
    if gain["resource"] not in ("vcpus", "memory"):
        return ""
    if amount is None:
        return t("sensitivity.rises")
    return format_mib(amount) if gain["unit"] == "mib" else plain(amount)


def _turns(turns: Sequence[Record], t: Texts, room: Room) -> Iterator[Any]:
    """Those of the pick first, then its neighbours; in the order of the front."""
    near = next((number for number, turn in enumerate(turns) if turn["of_chosen"]), 0)
    shown = turns[max(0, near - 1) :]
    columns = columns_of(
        t,
        ("cheaper", lambda turn: _end(turn["cheaper"], t), Look.LONG),
        ("dearer", lambda turn: _end(turn["dearer"], t), Look.LONG),
        ("turns", "at_samples_per_second", Look.LOWER),
        ("pays", lambda turn: t(
            "break.pays", usd=format_usd(turn["dearer_pays_below_usd_per_hour"]),
            now=format_usd(turn["dearer"]["total_usd_per_hour"]),
            verdict=t("break.yes" if turn["dearer_pays_now"] else "break.no"))),
    )  # fmt: skip
    if turns and room.turns:
        yield Table(columns, shown[: room.turns], lambda turn: bool(turn["of_chosen"]))
        yield Paragraph(t("break.note"), "note")
        if len(turns) > room.turns:
            yield Paragraph(t("more.rows", count=len(turns) - len(shown[: room.turns])), "note")


def _end(spec: Record, t: Texts) -> str:
    return f"{spec_name(spec)}, {disk_name(spec['disk'], t)}"


def _memory(block: Record | None, confidence: float, t: Texts, room: Room) -> Iterator[Any]:
    if not block or not block["batches"]:
        return
    yield memory_picture(block, t)
    columns = [
        *columns_of(
            t,
            ("batch", "batch_size", Look.WHOLE),
            ("memory", "needed_mib", Look.MIB),
            ("fits", lambda batch: t("yes" if batch["fits"] else "no")),
        ),
        *rate_columns(t, confidence, "reached.")[:2],
    ]
    if room.batches:
        yield Table(columns, block["batches"], _is_chosen)


def _others(answer: Record, confidence: float, t: Texts, room: Room) -> Iterator[Any]:
    specs = answer["alternatives"]
    if not specs:
        yield Paragraph(t("others.none"))
        return
    clouds = covers_clouds(answer)
    columns = alternative_columns(t, specs[0]["region"], confidence, clouds=clouds)
    yield from _shortened(columns, specs, room.alternatives, t)


def _rejected(answer: Record, t: Texts, room: Room) -> Iterator[Any]:
    """How many for which reason, and the nearest of them."""
    catalog = answer["catalog"]
    counts = [
        f"{t.known('reason.' + reason, reason)}: {count:,}"
        for reason, count in catalog["rejected_by_reason"].items()
    ]
    if not counts or not answer["rejected"]:
        return
    summary = t("rejected.of", rejected=f"{catalog['offers_rejected']:,}",
                considered=f"{catalog['offers_considered']:,}")  # fmt: skip
    yield Paragraph(f"{summary} {'; '.join(counts)}.")
    columns = rejected_columns(t, clouds=covers_clouds(answer))
    yield from _shortened(columns, answer["rejected"], room.rejected, t,
                          count=len(answer["rejected"]))  # fmt: skip
    if len(answer["rejected"]) < catalog["offers_rejected"]:
        yield Paragraph(t("rejected.some"), "note")


def _regions(places: Sequence[Record], t: Texts, room: Room) -> Iterator[Any]:
    columns = columns_of(
        t,
        ("region", "region"),
        ("per_hour", "total_usd_per_hour", Look.USD),
        ("per_month", "usd_per_month", Look.USD),
        ("kind", lambda place: t.known("kind." + place["kind"], place["kind"])),
        ("as_of", "as_of", Look.DAY),
    )
    yield from _shortened(columns, places, room.regions, t, _is_chosen)


def _evidence(facts: Sequence[Record], t: Texts) -> Iterator[Table]:
    columns = columns_of(
        t,
        ("stage", lambda fact: stage_name(fact["stage"], t)),
        ("what", lambda fact: translated(fact["detail"], t)),
        ("matters", lambda fact: t("yes" if fact["inside"] else "no")),
    )
    if facts:
        yield Table(columns, facts)


def _ages(ages: Sequence[Record], t: Texts) -> Iterator[Table]:
    columns = columns_of(
        t,
        ("what", lambda age: t.known("age." + age["what"], age["what"])),
        ("as_of", "as_of", Look.DAY),
        ("age", lambda age: t("days.one" if age["age_days"] == 1 else "days",
                              days=f"{age['age_days']:,}"), Look.WHOLE),
        ("kind", lambda age: t.known("kind." + age["kind"], age["kind"])),
        ("source", lambda age: English(age["source"]), Look.LONG),
    )  # fmt: skip
    if ages:
        yield Table(columns, ages)


def _again(block: Record, t: Texts) -> Section:
    """What gives the same report again."""
    catalog, model, rows = block["catalog"], block["performance_model"], block["measurements"]
    model_text = t(
        "again.model_value", id=model["id"], trained=t.render(model["trained_on"]),
        error=plain(model["error_percent"]), sha=model["sha256"],
    )  # fmt: skip
    facts = [
        *(("inputs", f"{file['name']}, sha256 {file['sha256']}") for file in block["inputs"]),
        ("catalog", t("again.catalog_value", date=catalog["as_of"], sha=catalog["sha256"])),
        ("model", model_text),
        ("measurements",
         t("again.measurements_value", rows=rows["rows"], sha=rows["bundled_sha256"])),
        *([("ids", " ".join(rows["trial_ids"]))] if rows["trial_ids"] else []),
        ("versions", ", ".join(f"{name} {value}" for name, value in block["versions"].items())),
        ("sources", English("; ".join(catalog["sources"]))),
    ]  # fmt: skip
    pairs = [(t(f"again.{name}"), text) for name, text in facts]
    return Section(t("again.title"), "again", [Command(block["command"]), Facts(pairs)])
