"""The details of a report's section, shown after the answer: prices, stages, curves, evidence, places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from advisor.domain import LIST
from advisor.domain.words import StepKind
from advisor.messages import format_mib, format_rate
from advisor.render.blocks import Column, Items, Look, Paragraph, Part, Table, plain, translated
from advisor.render.charts import curves_picture, front_picture, price_picture
from advisor.render.facts import covers_clouds, section_run_usd, type_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.phrases import count_text, way_text
from advisor.render.sentences import (
    alternative_columns,
    columns_of,
    cost_columns,
    instead_columns,
    rate_columns,
    rejected_columns,
    settings_columns,
    spec_columns,
    stage_name,
)
from advisor.render.text import lower_name, upper_name
from advisor.render.views.specs import TIMES

Record = Mapping[str, Any]
# How many other specs a first page shows.
_COMPARED = 4
# Gains below this percentage of the rate are shown as none.
_NOTHING_PERCENT = 0.05


class Room(NamedTuple):
    """How much of a report to show: for up to how many workloads, and how many rows of each long table.
    `brief` says why there are no appendices, and without `has_costs` neither costs nor next steps. The data
    formats always have everything."""

    workloads: float
    rows: int = 0
    alternatives: int = 100
    brief: str = ""
    has_costs: bool = True

    @property
    def is_tight(self) -> bool:
        """True if parts of less interest are left out."""
        return self.alternatives < _COMPARED


def network_parts(section: Record, t: Texts, room: Room) -> Iterator[Part]:
    """Yield the parts that only a network's section has: prices, stages, curves, memory."""
    yield price_part(section, t, room)
    stages, on_cpu = section["bottleneck"], _computes_on_cpu(section)
    if stages and stages["stages"]:
        table = stages_table(stages["stages"], t, on_cpu=on_cpu)
        yield Part(t("stages.title"), [table, Paragraph(t("stages.note"), "note")], detail=True)
    settings = section["recommendation"].get("other_settings", ())
    if settings:
        table = Table(settings_columns(settings, t, on_cpu=on_cpu), settings)
        yield Part(t("settings.title"), [table, Paragraph(t("settings.note"), "note")], detail=True)
    if section["curves"]:
        # Measurements shown beside a curve had other conditions, which the data formats list.
        measured = any(curve["measured"] for curve in section["curves"].values())
        note = t("curves.note" if measured else "curves.note_none")
        yield Part(t("curves.title"), [curves_picture(section, t)._replace(note=note)], detail=True)
    yield sensitivity_part(section["sensitivity"], t, on_cpu=on_cpu)
    memory = section["gpu_memory"]
    if memory and memory["batches"] and not room.is_tight:
        columns = [
            *columns_of(
                t,
                ("batch", "batch_size", Look.WHOLE),
                ("memory", "needed_mib", Look.MIB),
                ("fits", lambda batch: t("yes" if batch["fits"] else "no")),
            ),
            *rate_columns(t, section["answer"]["confidence"], "reached.")[:2],
        ]
        has = Paragraph(t("memory.has", name=memory["gpu"], has=format_mib(memory["has_mib"])))
        yield Part(t("memory.title"), [has, Table(columns, memory["batches"], _is_chosen)], detail=True)


def _computes_on_cpu(section: Record) -> bool:
    spec = section["answer"]["spec"]
    return bool(spec) and spec["gpu"] is None


def served(document: Record) -> Record:
    """Return the object with a document's ways to serve: a prediction itself, or `serving` of an answer."""
    return document if "front" in document else document.get("serving", {})


def serving_parts(document: Record, t: Texts) -> Iterator[Part]:
    """Yield the parts that only a served model has: latency against throughput, and gains of one change."""
    front = served(document).get("front", ())
    if len(front) > 1 and document["recommendation"]:
        chart = front_picture(front, document["recommendation"], t)
        yield Part(t("lm.front"), [chart, front_table(front, document, t)])
    yield from steps_parts(document, t)


def front_table(front: Sequence[Record], document: Record, t: Texts) -> Table:
    """Return the chart's points as a table; rates and requests in flight are of all instances together."""
    request, count = document["request"], (document.get("recommendation") or document).get("count", 1)
    in_flight = t("lm.in_flight_of", count=count) if count > 1 else t("lm.in_flight")
    lower, median, _ = rate_columns(t, request["confidence"], "output_tokens_per_second.")
    limited = ((name, title, str(request.get(option)).partition(":")) for name, title, option in TIMES)
    # Documents of earlier versions have no percentiles here.
    percentiles = [
        Column(f"{which} {title} ms", f"percentiles.{name}_seconds.{which}.median", Look.MS)
        for name, title, (which, of_requests, _) in limited
        if of_requests and which in front[0].get("percentiles", {}).get(f"{name}_seconds", ())
    ]
    columns = [
        Column(t("lm.runs"), way_text),
        Column(in_flight, lambda point: count_text(point["concurrency"])),
        *(Column(t(f"table.{name}"), f"{name}_seconds.median", Look.MS) for name in ("ttft", "tpot")),
        *percentiles,
        *(lower, median),
        Column(t("table.per_million_output_tokens"), "usd_per_million_output_tokens.median", Look.USD),
        Column(t("lm.misses"), partial(_missed, request=request, t=t)),
    ]
    return Table(columns, front)


def _missed(point: Record, *, request: Record, t: Texts) -> str:
    """Return what a point misses: 'TTFT (p90), target', with the bound if its median keeps the limit."""
    if "missed" not in point:  # a document of an earlier version
        return "" if point["answers"] else t(f"misses.{point.get('misses') or 'any'}")
    titles = {name: title for name, title, _ in TIMES}
    titles["target"] = t("misses.users" if request.get("users") else "misses.target")
    confidence = request["confidence"]
    bounds = dict.fromkeys(titles, upper_name(confidence)) | {"target": lower_name(confidence)}
    return ", ".join(
        titles[name] + (f" ({bounds[name]})" if by == "bound" else "") for name, by in point["missed"].items()
    )


def steps_parts(document: Record, t: Texts) -> list[Part]:
    """Return the gain of each change; that of a faster disk only if the question limits the start time."""
    is_asked = document["request"].get("max_ready_seconds") is not None
    steps = [
        step
        for step in served(document).get("steps", ())
        if step["option"] and (is_asked or step["kind"] != StepKind.DISK)
    ]
    if not steps:
        return []
    # A wider split may leave GPUs unused or make fewer replicas. Documents of earlier versions lack this.
    placed = [
        Column(t("lm.runs"), lambda step: way_text(step["gives"]["placement"]) if step["gives"] else "")
        for step in steps
        if step["kind"] == StepKind.TENSOR_PARALLEL and "placement" in (step["gives"] or {})
    ]
    spec = document.get("recommendation") or document

    def runs_on(step: Record) -> str:
        count = (step["gives"] or spec).get("count", spec.get("count", 1))
        return type_name({**spec, "count": count}, clouds=False)

    columns = [
        Column(t("lm.step"), "option", Look.NAME),
        Column(t("lm.runs_on"), runs_on, Look.NAME),
        *placed[:1],
        Column(t("table.median"), "gives.output_tokens_per_second.median", Look.RATE),
        Column(t("table.tpot"), "gives.tpot_seconds.median", Look.MS),
        Column(t("table.per_million_output_tokens"), "gives.usd_per_million_output_tokens.median", Look.USD),
        Column(t("lm.why_not"), lambda step: translated(step["why_not"] or "", t)),
        *instead_columns(steps, t),
    ]
    return [Part(t("lm.steps"), [Table(columns, steps)])]


def other_parts(answer: Record, t: Texts, room: Room) -> Iterator[Part]:
    """Yield the other specs, and the rejected types."""
    if answer["recommendation"] and not room.is_tight:
        specs, others = answer["alternatives"], list[Table | Paragraph]()
        if specs:
            columns = alternative_columns(specs, t, specs[0]["region"], clouds=covers_clouds(answer))
            others += _shortened(columns, specs, room.alternatives, t)
        yield Part(t("others.title"), others or [Paragraph(t("others.none"))], detail=True)
    rejected = answer["rejected"]
    if rejected:
        columns = rejected_columns(t, clouds=covers_clouds(answer))
        blocks = [*_shortened(columns, rejected, room.rows, t)]
        if len(rejected) < (count := answer["catalog"]["offers_rejected"]):
            blocks = [*blocks[:1], Paragraph(t("rejected.some", count=f"{count:,}"), "note")]
        if (most := answer["request"].get("max_count") or 1) > 1:
            blocks.append(Paragraph(t("rejected.share", count=most), "note"))
        yield Part(t("rejected.title"), blocks, detail=True)


def price_part(section: Record, t: Texts, room: Room) -> Part:
    """Return price against rate: a chart and its specs, first those that answer, then the front."""
    rows, confidence = list(section["price_throughput"]), section["answer"]["confidence"]
    if not rows:
        return Part(t("price.title"), [])
    note = t("price.note", p10=lower_name(confidence), p90=upper_name(confidence))
    chart = price_picture(section, t)._replace(note=note)
    if not any(row["answers"] for row in rows):
        rows.sort(key=lambda row: -float(row["lower"]))
    rows.sort(key=lambda row: (not row["chosen"], not row["answers"], not row["on_front"]))
    home = (section["answer"]["spec"] or rows[0])["region"]
    # The kinds of the prices, unless all are listed; documents of earlier versions lack them.
    kinds = columns_of(
        t, ("kind", lambda row: f"{t('market.' + row['market'])}, {t('kind.' + row['price_kind'])}")
    )
    columns = [
        *spec_columns(t, home, clouds=covers_clouds(section["recommendation"])),
        *columns_of(t, ("per_hour", "total_usd_per_hour", Look.USD)),
        *([] if all(row.get("price_kind", LIST) == LIST for row in rows) else kinds),
        *rate_columns(t, confidence),
        *cost_columns(t, rows[0]),
    ]
    return Part(t("price.title"), [chart, *_shortened(columns, rows, room.rows, t, _is_chosen)], detail=True)


def notes_parts(answer: Record, t: Texts) -> Iterator[Part]:
    """Yield the warnings and assumptions of an answer."""
    notes = {"warnings": t("warnings.title"), "assumptions": t("assumptions.title")}
    for name, title in notes.items():
        texts = [translated(sentence, t) for sentence in answer[name]]
        if texts:
            yield Part(title, [Items(texts)])


def place_parts(section: Record, t: Texts, room: Room) -> Iterator[Part]:
    """Yield the chosen spec elsewhere, what its prediction is based on, and how old its data is."""
    yield evidence_part(section["evidence"], t, on_cpu=_computes_on_cpu(section))
    run, spec = section_run_usd(section), section["answer"]["spec"]

    def of_run(region: Record) -> float | None:
        usd = region["total_usd_per_hour"]
        return usd and run and run * usd / spec["usd_per_hour"]

    per_month = ("per_month", "usd_per_month", Look.USD)
    columns = columns_of(
        t,
        ("region", "region"),
        ("per_hour", "total_usd_per_hour", Look.USD),
        per_month if run is None else ("per_run", of_run, Look.USD),
        ("kind", lambda region: t.known("kind." + region["kind"], region["kind"])),
        ("as_of", "as_of", Look.DAY),
    )
    regions = [*_shortened(columns, section["regions"], room.rows, t, _is_chosen)]
    yield Part(t("regions.title"), regions, detail=True)
    columns = columns_of(
        t,
        ("what", lambda age: t.known("age." + age["what"], age["what"])),
        ("as_of", "as_of", Look.DAY),
        ("age", lambda age: _age(age["age_days"], t), Look.WHOLE),
        ("kind", lambda age: t.known("kind." + age["kind"], age["kind"]), Look.NAME),
        ("source", "source", Look.LONG),
    )
    if section["data_ages"]:
        yield Part(t("ages.title"), [Table(columns, section["data_ages"])], detail=True)


def _age(days: int, t: Texts) -> str:
    """'133 days'; a report of an earlier day may hold data of a later one."""
    return t("days.after") if days < 0 else t("days.one" if days == 1 else "days", days=f"{days:,}")


def _shortened(
    columns: Sequence[Column],
    records: Sequence[Record],
    most: int,
    t: Texts,
    chosen: Callable[[Record], bool] = lambda _record: False,
) -> Iterator[Table | Paragraph]:
    """Yield a table of the first `most` records, and how many more there are."""
    if most and records:
        yield Table(columns, records[:most], chosen)
    more = len(records) - most
    if more > 0:
        yield Paragraph(t("more.rows", count=f"{more:,}"), "note")


def _is_chosen(record: Record) -> bool:
    return bool(record["chosen"])


def stages_table(stages: Sequence[Record], t: Texts, *, on_cpu: bool) -> Table:
    """Return the rate of each stage by itself, and its utilization."""
    columns = columns_of(
        t,
        ("stage", lambda stage: stage_name(stage["stage"], t, on_cpu=on_cpu)),
        ("alone", "samples_per_second", Look.RATE),
        ("used", "utilization", Look.SHARE),
    )
    return Table(columns, stages)


def sensitivity_part(gains: Sequence[Record], t: Texts, *, on_cpu: bool) -> Part:
    """Return the gain of one more of each resource, and the amount from which on there is none, if known."""

    def brings(gain: Record) -> str:
        rate, share = gain["samples_per_second"], gain["percent"]
        if abs(share) < _NOTHING_PERCENT:
            return t("sensitivity.nothing")
        if rate < 0:
            return f"\u2212{format_rate(-rate)}/s (\u2212{format_rate(-share)} %)"
        return t("sensitivity.brings", rate=format_rate(rate), percent=format_rate(share))

    def flat(gain: Record) -> str:
        amount = gain["flat_after"]
        if gain["resource"] not in ("vcpus", "memory"):
            return ""
        if amount is None:
            return t("sensitivity.rises")
        return format_mib(amount) if gain["unit"] == "mib" else plain(amount)

    columns = columns_of(
        t,
        ("resource", lambda gain: t.known(f"step.{gain['step']}", translated(gain["step"], t))),
        ("brings", brings),
        ("bound", lambda gain: stage_name(gain["bottleneck"], t, on_cpu=on_cpu)),
        *([("flat", flat)] if gains and "flat_after" in gains[0] else []),
    )
    return Part(t("sensitivity.title"), [Table(columns, gains)] if gains else [], detail=True)


def evidence_part(facts: Sequence[Record], t: Texts, *, on_cpu: bool) -> Part:
    """Return the measured facts behind a prediction, and whether it is within the measured range."""
    columns = columns_of(
        t,
        ("stage", lambda fact: stage_name(fact["stage"], t, on_cpu=on_cpu)),
        ("what", lambda fact: translated(fact["detail"], t)),
        ("matters", lambda fact: t("yes" if fact["inside"] else "no")),
    )
    return Part(t("evidence.title"), [Table(columns, facts)] if facts else [], detail=True)
