"""A report's document as blocks, in the order of a reader's questions: what HTML, PDF, Markdown and
notebooks show of it, and the service's page of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from advisor.domain import HOURS_PER_MONTH, LIST
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
    translated,
)
from advisor.render.charts import front_picture, totals_picture
from advisor.render.document import is_language
from advisor.render.document_names import covers_clouds, place_name, spec_name, type_name
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.i18n.filters import lower_rate, plain
from advisor.render.phrases import ENGINES, count_text, gib_text, seconds_text
from advisor.render.sentences import (
    answer_sentences,
    asked_sentence,
    borderline_sentence,
    by_price,
    columns_of,
    disk_name,
    price_call_leaves,
    rate_columns,
    relax_sentence,
    sample_name,
    stage_name,
    totals_sentence,
    unit_name,
)
from advisor.render.text import lower_name, upper_name
from advisor.render.views.details import Room, details, notes_parts, place_parts, price_part
from advisor.units import format_hours, format_rate, format_usd

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
    """What the rates count, where that is not the same everywhere."""
    units = {(_answered(section) or {}).get("unit") for section in sections} - {None}
    if len(units) < 2:
        return []
    return columns_of(t, ("unit", lambda row: unit_name(row, t) if _answered(row) else None))


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


def _again(document: Record, t: Texts) -> Section:
    """What gives the same report again, with the predictors that answered."""
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


MOST_REJECTED = 25


def language_parts(document: Record, t: Texts, rejected: int = MOST_REJECTED) -> list[Leaf | Part]:
    """The whole answer, most important first, with so many `rejected` types."""
    return [*answer_parts(document, t), *detail_parts(document, t, rejected)]


def answer_parts(document: Record, t: Texts) -> list[Leaf | Part]:
    """What is recommended, what its price and its rates are known from, and what to relax."""
    chosen = document["recommendation"]
    blocks: list[Leaf | Part] = [*price_call_leaves(document, t)]
    blocks.append(Paragraph(answer_sentence(document, t), "answer"))
    blocks += [] if chosen is None else [Paragraph(_known_from(chosen, t))]
    relax = [_relaxation(row, clouds=covers_clouds(document)) for row in document["relax"]]
    return [*blocks, *([Part(t("lm.relax"), [Items(relax)])] if relax else [])]


def detail_parts(document: Record, t: Texts, rejected: int) -> list[Leaf | Part]:
    """What the spec does, what else could be done, other specs, and what is assumed."""
    chosen, blocks = document["recommendation"], list[Leaf | Part]()
    if chosen is not None:
        blocks.append(spec_facts(chosen, t))
        blocks += [*_front_parts(document, t), *steps_parts(document, t)]
    blocks += other_parts(document, t, rejected)
    about = t("lm.data", date=document["catalog"]["as_of"], id=document["performance_model"]["id"])
    return [*blocks, Paragraph(about, "note")]


def other_parts(document: Record, t: Texts, rejected: int) -> list[Part]:
    """Other specs, and what is assumed and warned of."""
    parts = _alternatives(document, t) + _rejected(document, t, rejected)
    for key in ("assumptions", "warnings"):
        texts = [translated(text, t) for text in document[key]]
        heading = t("lm.assumed" if key == "assumptions" else "lm.warnings")
        parts += [Part(heading, [Items(texts)])] if texts else []
    return parts


def answer_sentence(document: Record, t: Texts) -> str:
    """What is recommended with its price and rate; or that nothing is, and what comes nearest."""
    chosen, nearest = document["recommendation"], document["nearest"]
    confidence = document["request"]["confidence"]
    if chosen is None:
        return t.joined([t("lm.none"), *([_language_nearest(document, t)] if nearest else [])])
    rate = chosen["predicted"]["throughput"]
    values = {
        "spec": spec_name(chosen),
        "disk": chosen["disk"]["order"],
        "region": place_name(chosen, clouds=covers_clouds(document)),
        "market": t(f"market.{chosen['market']}"),
        "usd": format_usd(chosen["price"]["total_usd_per_hour"]),
        "p10": lower_name(confidence),
        "p90": upper_name(confidence),
        "lower": lower_rate(rate["lower"]),
        "median": format_rate(rate["median"]),
        "upper": format_rate(rate["upper"]),
    }
    if "serving" in chosen:
        flight = count_text(chosen["serving"]["rates"]["concurrency"])
        return t("lm.answer", flight=flight, **values)
    run = chosen["run"]
    hours, cost = format_hours(run["hours"]["median"]), format_usd(run["usd"]["median"])
    told = t("lm.answer_tuning", hours=hours, cost=cost, **values)
    return t.joined([told, *by_price(run, "run.cost_by_price", t)])


def _language_nearest(document: Record, t: Texts) -> str:
    nearest, confidence = document["nearest"], document["request"]["confidence"]
    rate = nearest["predicted"]["throughput"]
    return t(
        "lm.nearest",
        spec=spec_name(nearest),
        region=place_name(nearest, clouds=covers_clouds(document)),
        usd=format_usd(nearest["price"]["total_usd_per_hour"]),
        p10=lower_name(confidence),
        lower=lower_rate(rate["lower"]),
        median=format_rate(rate["median"]),
    )


def _known_from(chosen: Record, t: Texts) -> str:
    level = chosen["risk"]
    anchored = chosen["predicted"]["provenance"] == "anchored"
    return t("lm.stands_anchored" if anchored else "lm.stands", risk=t(f"risk.{level}"), number=level)


def spec_facts(spec: Record, t: Texts) -> Facts:
    """What it does: formats, times, memory, cost."""
    return Facts(list(_facts(spec, t)))


def _facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    if spec["gpu"]:
        yield t("lm.gpu"), f"{spec['gpu']['count']} x {spec['gpu']['name']}"
    if "serving" in spec:
        yield from _serving_facts(spec, t)
    else:
        yield from _tuning_facts(spec, t)


def _serving_facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    serving, cost = spec["serving"], spec["cost"]
    rates, placed = serving["rates"], serving["placement"]
    name = ENGINES.get(serving["engine"], serving["engine"])
    yield t("lm.engine"), t("lm.engine_value", name=name, version=serving["engine_version"])
    yield t("lm.formats"), f"{serving['precision']}, {serving['kv_precision']}"
    yield (
        t("lm.placement"),
        t(
            "lm.placement_value" if placed["tensor_parallel"] > 1 else "lm.placement_single",
            replicas=placed["replicas"],
            gpus=placed["tensor_parallel"],
            link=placed["link"],
        ),
    )
    yield (
        t("lm.lengths"),
        t(
            "lm.lengths_value",
            input=f"{serving['input_tokens']:,.0f}",
            output=f"{serving['output_tokens']:,.0f}",
        ),
    )
    for key, of in (("lm.requests", "requests_per_second"), ("lm.user", "output_tokens_per_second_per_user")):
        yield t(key), f"{lower_rate(rates[of]['lower'])} .. {format_rate(rates[of]['median'])}"
    for key, of in (("lm.ttft", "ttft_seconds"), ("lm.tpot", "tpot_seconds"), ("lm.e2e", "e2e_seconds")):
        yield t(key), span_text(rates[of], t)
    yield from _memory_facts(serving["memory_per_gpu"], t)
    note = t("lm.cost_note")
    for key, of in (
        ("lm.cost_output", "usd_per_million_output_tokens"),
        ("lm.cost_input", "usd_per_million_input_tokens"),
    ):
        yield t(key), f"{format_usd(cost[of]['median'])}. {note}"
    ready = serving["ready_seconds"]
    yield (
        t("lm.ready"),
        t(
            "lm.ready_value",
            total=seconds_text(ready["total"]),
            load=seconds_text(ready["load_weights"]),
            start=seconds_text(ready["start_engine"]),
        ),
    )
    yield t("lm.bound"), t(f"bind.{spec['bottleneck']}")


def span_text(span: Record, t: Texts) -> str:
    """'38 ms on average, at most 52 ms': a bound of the mean of all requests, as the text's."""
    upper = span["upper"]
    return t(
        "lm.span",
        median=seconds_text(span["median"]),
        upper="?" if upper is None else seconds_text(upper, up=True),
    )


def _memory_facts(memory: Record, t: Texts) -> Iterator[tuple[str, str]]:
    sizes = {part: gib_text(memory[f"{part}_gib"]) for part in ("weights", "kv", "overhead", "free")}
    yield t("lm.memory"), t("lm.memory_value", **sizes)
    yield (
        t("lm.holds"),
        t(
            "lm.holds_value",
            count=f"{memory['largest_concurrency']:,}",
            context=f"{memory['longest_context']:,}",
        ),
    )


def _tuning_facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    tuning = spec["tuning"]
    yield t("lm.micro_batch"), str(tuning["micro_batch"])
    kept = t("lm.recomputed" if tuning["checkpointing"] else "lm.kept")
    yield t("lm.checkpointing"), kept
    sizes = {name: gib_text(gib) for name, gib in tuning["memory_per_gpu"].items()}
    yield t("lm.memory"), t("lm.memory_tuning", **sizes)


def _front_parts(document: Record, t: Texts) -> list[Leaf | Part]:
    front = document.get("serving", {}).get("front", ())
    if len(front) < 2:
        return []
    chart = front_picture(front, document["recommendation"], t)
    return [Part(t("lm.front"), [chart, front_table(front, document["request"], t)])]


def front_table(front: Sequence[Record], request: Record, t: Texts) -> Table:
    """The points of the chart."""
    columns = [
        Column(t("lm.runs"), lambda point: f"{point['replicas']} x TP{point['tensor_parallel']}"),
        Column(t("lm.in_flight"), lambda point: count_text(point["concurrency"])),
        Column(t("lm.ttft"), lambda point: seconds_text(point["ttft_seconds"]["median"])),
        Column(t("lm.tpot"), lambda point: seconds_text(point["tpot_seconds"]["median"])),
        Column(
            t("lm.lower", p10=lower_name(request["confidence"])), "output_tokens_per_second.lower", Look.LOWER
        ),
        Column(t("lm.median"), "output_tokens_per_second.median", Look.RATE),
        Column(t("lm.million"), "usd_per_million_output_tokens.median", Look.USD),
        Column(t("lm.misses"), lambda point: _missed(point, t)),
    ]
    return Table(columns, front)


def _missed(point: Record, t: Texts) -> str:
    """What a point misses; documents of earlier versions do not tell which."""
    if point["answers"]:
        return t("misses.nothing")
    return t("misses." + (point.get("misses") or "any"))


def steps_parts(document: Record, t: Texts) -> list[Part]:
    """What one thing more would bring."""
    steps = [step for step in document.get("serving", {}).get("steps", ()) if step["option"]]
    if not steps:
        return []
    columns = [
        Column(t("lm.step"), "option", Look.NAME),
        Column(t("lm.median"), "gives.output_tokens_per_second.median", Look.RATE),
        Column(
            t("lm.tpot"), lambda step: step["gives"] and seconds_text(step["gives"]["tpot_seconds"]["median"])
        ),
        Column(t("lm.million"), "gives.usd_per_million_output_tokens.median", Look.USD),
        Column(t("lm.why_not"), lambda step: translated(step["why_not"] or "", t)),
    ]
    return [Part(t("lm.steps"), [Table(columns, steps)])]


def _alternatives(document: Record, t: Texts) -> list[Part]:
    specs, clouds = document["alternatives"], covers_clouds(document)
    if not specs:
        return []
    columns = [
        Column(
            t("lm.instance"),
            lambda spec: f"{spec_name(spec)} {place_name(spec, clouds=True)}" if clouds else spec_name(spec),
            Look.NAME,
        ),
        Column(t("lm.gpu"), lambda spec: f"{spec['gpu']['count']} x {spec['gpu']['name']}"),
        Column(t("lm.disk"), "disk.order", Look.LONG),
        Column(t("lm.per_hour"), "price.total_usd_per_hour", Look.USD),
        Column(
            t("lm.lower", p10=lower_name(document["request"]["confidence"])),
            "predicted.throughput.lower",
            Look.LOWER,
        ),
        Column(t("lm.median"), "predicted.throughput.median", Look.RATE),
        *_cost_columns(specs[0], t),
        *_price_columns([document["recommendation"], *specs], t),
    ]
    return [Part(t("lm.alternatives"), [Table(columns, specs)])]


def _price_columns(specs: Sequence[Record], t: Texts) -> list[Column]:
    """Market and kind of the prices; nothing where all are on one market, and listed."""
    if len({spec["market"] for spec in specs}) == 1 and all(spec["price"]["kind"] == LIST for spec in specs):
        return []
    return [
        Column(
            t("lm.price"),
            lambda spec: f"{t('market.' + spec['market'])}, {t('kind.' + spec['price']['kind'])}",
        )
    ]


def _cost_columns(spec: Record, t: Texts) -> list[Column]:
    if "serving" in spec:
        return [Column(t("lm.million"), "cost.usd_per_million_output_tokens.median", Look.USD)]
    return [
        Column(t("lm.hours"), lambda spec: format_hours(spec["run"]["hours"]["median"])),
        Column(t("lm.run_cost"), "run.usd.median", Look.USD),
    ]


def _rejected(document: Record, t: Texts, most: int) -> list[Part]:
    shown, clouds = document["rejected"][:most], covers_clouds(document)
    if not shown:
        return []
    columns = [
        Column(t("lm.instance"), lambda row: type_name(row, clouds=clouds), Look.NAME),
        Column(t("lm.per_hour"), "usd_per_hour", Look.USD),
        Column(t("lm.reason"), lambda row: t.known(f"reason.{row['reason']}", row["reason"])),
        Column(t("lm.detail"), lambda row: translated(row["detail"], t)),
    ]
    return [Part(t("lm.rejected"), [Table(columns, shown)], detail=True)]


def _relaxation(relaxation: Record, *, clouds: bool) -> str:
    changes = ", ".join(f"{change['option']} {change['to']}".strip() for change in relaxation["changes"])
    gives = relaxation["gives"]
    return f"{changes}: {type_name(gives, clouds=clouds)}, {format_usd(gives['total_usd_per_hour'])}/h"
