"""Arranges a report's document as blocks, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from advisor.domain import LIST
from advisor.render.blocks import (
    Block,
    Column,
    Command,
    Facts,
    Items,
    Leaf,
    Look,
    Page,
    Paragraph,
    Part,
    Section,
    Table,
    percent,
    plain,
    translated,
)
from advisor.render.borderline import modest
from advisor.render.charts import totals_picture
from advisor.render.document import is_language
from advisor.render.facts import covers_clouds, decision_of, run_usd, spec_name
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.sentences import (
    aimed_at,
    asked_sentence,
    basis_sentence,
    borderline_calls,
    borderline_sentence,
    columns_of,
    disk_name,
    headline,
    lower_sentence,
    price_call_leaves,
    rate_columns,
    relax_sentence,
    sample_name,
    totals_sentence,
    unit_name,
)
from advisor.render.views.brief import brief_leaves
from advisor.render.views.details import (
    Room,
    compared_leaves,
    network_parts,
    notes_parts,
    other_parts,
    place_parts,
    price_part,
    serving_parts,
)
from advisor.render.views.specs import spec_facts
from advisor.units import format_target, format_usd

Record = Mapping[str, Any]


# A file keeps within 1.5 MB, however many workloads it has.
FILE = (
    Room(10, specs=10, rejected=12, regions=12, turns=6),
    Room(50, rejected=2, regions=2, turns=2, alternatives=2, batches=False),
    Room(inf, brief="totals.brief"),
)
# What is pasted into a comment keeps within what a comment may have.
COMMENT = (
    Room(inf, specs=12, rejected=6, regions=6, turns=3, alternatives=8),
    Room(inf, costs=False, brief="markdown.brief"),
)


def report_page(document: Record, language: str, room: Room) -> Page:
    """The blocks of a report: a page a workload for whoever pays, then what it stands on."""
    t = report_texts(language)
    sections = document["workloads"]
    blocks: list[Block] = [_totals(document, t, room)] if len(sections) > 1 else []
    for number, section in enumerate(sections, 1):
        blocks.append(Section(section["name"], f"w{number}", list(_answer(section, t, room))))
        if not room.brief:
            appendix = t("appendix.title", name=section["name"])
            blocks.append(Section(appendix, f"w{number}-more", list(_appendix(section, t, room))))
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
    """All workloads on a page: what they cost together, a line for each, and a bar for what is kept."""
    sections, totals = document["workloads"], document["totals"]
    confidences = sorted({section["answer"]["confidence"] for section in sections})
    columns = _totals_columns(sections, confidences, t)
    total: list[str] = []
    if totals["answered"]:
        # An hour of what is kept and an hour of a run are no sum: their column has none where both are.
        ends = totals["run_usd"] is not None
        sums = [None if ends else totals["usd_per_hour"], totals["month_usd"]] + [totals["run_usd"]] * ends
        texts = ["" if usd is None else format_usd(usd) for usd in sums]
        total = [t("totals.all"), *[""] * (len(columns) - 1 - len(texts)), *texts]
    bounds = [lower_sentence(confidence, t) for confidence in confidences]
    blocks: list[Any] = [Paragraph(t.joined([totals_sentence(document, t), *bounds]), "answer")]
    blocks += [Paragraph(t(room.brief), "note")] if room.brief else []
    blocks.append(Table(columns, sections, total=total))
    kept = [section for section in sections if _answered(section) and _run_usd(section) is None]
    chart = totals_picture(kept, t)
    blocks += [Part(t("totals.chart"), [chart])] if chart else []
    blocks += [_quotas(totals["quotas"], t)] if totals.get("quotas") else []
    return Section(t("totals.title"), "", blocks)


def _quotas(quotas: Sequence[Record], t: Texts) -> Part:
    """What the account must allow for all workloads together, and what it lacks."""
    columns = [
        Column(t("quota.name"), lambda quota: f"{quota['name']} ({quota['code']})", Look.LONG),
        Column(t("table.region"), "region", Look.NAME),
        Column(t("quota.kept"), "kept_vcpus", Look.WHOLE),
        Column(t("quota.all"), "vcpus", Look.WHOLE),
        Column(t("quota.allowed"), lambda quota: quota["allowed"] and plain(quota["allowed"])),
    ]
    short = [quota for quota in quotas if quota["allowed"] is not None and quota["vcpus"] > quota["allowed"]]
    lacks = [t("quota.short", **{**quota, "allowed": plain(quota["allowed"])}) for quota in short]
    return Part(
        t("quota.title"), [Table(columns, quotas), Paragraph(t.joined([t("quota.note"), *lacks]), "note")]
    )


def _run_usd(section: Record) -> float | None:
    return run_usd(section["recommendation"]["recommendation"])


def _totals_columns(sections: Sequence[Record], confidences: Sequence[float], t: Texts) -> list[Column]:
    """The columns of the table of all workloads: what was asked, the pick, how sure it is, its cost."""
    anchors = {id(section): f"#w{number}" for number, section in enumerate(sections, 1)}

    def of_spec(name: str) -> Callable[[Record], Any]:
        return lambda section: (_answered(section) or {}).get(name)

    def total_name(section: Record) -> str:
        spec = _answered(section)
        if spec is None:
            return t("totals.none_fits")
        cloud = f" ({spec['cloud']})" if covers_clouds(section["recommendation"]) else ""
        return f"{spec_name(spec)}{cloud} + {disk_name(spec['disk'], t)}"

    def target(section: Record) -> str | None:
        rate = section["answer"]["target_throughput"]
        return aimed_at(section["recommendation"]["request"], t) if rate is None else format_target(rate)

    def risk(section: Record) -> str:
        """'medium (2 of 4)'; nothing where nothing is recommended."""
        level = of_spec("risk")(section)
        return "" if level is None else t("totals.risk", risk=t(f"risk.{level}"), number=level)

    def sure(section: Record) -> float | None:
        chance = decision_of(section["recommendation"]).get("probability")
        return None if chance is None else modest(chance)

    def per_month(section: Record) -> float | None:
        usd: float | None = of_spec("usd_per_month")(section) if _run_usd(section) is None else None
        return usd

    units = {of_spec("unit")(section) for section in sections} - {None}
    of_unit = ("unit", lambda section: unit_name(section, t) if _answered(section) else None)
    lower = rate_columns(t, confidences[0] if len(confidences) == 1 else None)[0]
    return [
        Column(
            t("totals.workload"),
            lambda section: section["name"][:80],
            link=lambda section: anchors[id(section)],
        ),
        *columns_of(t, ("instance", total_name, Look.LONG), ("target", target)),
        lower._replace(of=of_spec("lower")),
        *columns_of(
            t, *([of_unit] if len(units) > 1 else []), ("sure", sure, Look.SHARE), ("risk", risk, Look.NAME)
        ),
        # Empty where there is no cost, not unknown.
        Column(t("table.per_hour"), of_spec("usd_per_hour"), Look.USD),
        Column(t("table.per_month"), per_month, Look.USD),
        *([Column(t("table.per_run"), _run_usd, Look.USD)] if any(map(_run_usd, sections)) else []),
    ]


def _answered(section: Record) -> Record | None:
    spec: Record | None = section["answer"]["spec"]
    return spec if section["answer"]["status"] == "answered" else None


def _appendix(section: Record, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    answer = section["recommendation"]
    spec = answer["recommendation"]
    if spec and room.batches:
        yield Part(t("detail.title"), [spec_facts(spec, answer["request"], t)], detail=True)
    yield from serving_parts(answer, t) if is_language(answer) else network_parts(section, t, room)
    yield from other_parts(answer, t, room)
    yield from notes_parts(answer, t)
    yield from place_parts(section, t, room)


def _answer(section: Record, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    """What to rent, what it costs and how sure that is, what it was compared with, and what to do next."""
    answer, facts = section["recommendation"], section["answer"]
    if answer["recommendation"] is None:
        yield from _nearest(section, t)
        return
    # A run that ends costs no month.
    run, usd = answer["recommendation"].get("run"), _run_usd(section)
    month = [t("answer.month", usd=format_usd(facts["spec"]["usd_per_month"]))] if run is None else []
    month += [t("answer.run", usd=format_usd(usd))] if usd is not None else []
    yield Paragraph(t.joined([headline(answer, t), *month]), "answer")
    leaves = brief_leaves(answer, t)
    yield leaves[0]
    basis = [] if room.brief else [basis_sentence(answer["recommendation"], t)]
    yield Paragraph(t.joined([*basis, lower_sentence(facts["confidence"], t)]), "note")
    if not section["complete"]:
        yield Paragraph(t("answer.saved"), "note")
    price = list(price_call_leaves(answer, t))
    if price:
        yield Part(t("price_call.title"), price)
    if section["costs"] and section["costs"]["choices"] and room.costs:
        yield _costs(section, t)
    if not room.brief:
        yield Part(t("compared.title"), list(compared_leaves(answer, t, room)))
        # The trials that settle it, and the question for the day on which it is rented.
        again = (Paragraph(t("next.again")), Command(section["command"]))
        yield Part(t("next.title"), [*leaves[2:], *again])


def _nearest(section: Record, t: Texts) -> Iterator[Leaf | Part]:
    """The answer where nothing meets the question."""
    answer, clouds = section["recommendation"], covers_clouds(section["recommendation"])
    yield Paragraph(headline(answer, t), "answer")
    yield Paragraph(asked_sentence(section, t))
    yield from price_call_leaves(answer, t)
    spec = answer["nearest"]
    if spec:
        yield spec_facts(spec, answer["request"], t)
        yield Paragraph(basis_sentence(spec, t), "note")
    if answer["relax"]:
        relaxed = [relax_sentence(relaxation, answer["request"], t) for relaxation in answer["relax"]]
        yield Part(t("relax.title"), [Items(relaxed)])
    for call in borderline_calls(answer):
        sentence = borderline_sentence(call, section["answer"]["target_throughput"], t, clouds=clouds)
        yield Part(t("close.title"), [Paragraph(sentence), Command(call["trial"]["command"])])


def _costs(section: Record, t: Texts) -> Part:
    costs, counted = section["costs"], sample_name(section["answer"]["spec"]["unit"])

    def paying(choice: Record) -> str:
        market = t.known("market." + choice["market"], choice["market"])
        return f"{market} ({translated(choice['terms'], t)})" if choice["terms"] else market

    def saving(choice: Record) -> str | None:
        """'59 %', of what is no list price with its day: such prices may be far older."""
        share = (choice["saving_percent"] or 0) / 100
        day = "" if choice["kind"] == LIST else f" ({choice['as_of']})"
        return f"{percent(share)}{day}" if share else None

    run, chosen = _run_usd(section), section["answer"]["spec"]["usd_per_hour"]
    per = (
        ("per_month", "usd_per_month", Look.USD)
        if run is None
        else ("per_run", lambda choice: run * choice["usd_per_hour"] / chosen, Look.USD)
    )
    # Nobody commits for a year to one run.
    choices = [
        choice for choice in costs["choices"] if run is None or not choice["market"].startswith("commitment")
    ]
    columns = columns_of(
        t,
        ("paying", paying),
        ("per_hour", "usd_per_hour", Look.USD),
        per,
        (f"per_million_{counted}", "usd_per_million_samples", Look.USD),
        ("saving", saving),
        ("kind", lambda choice: t.known("kind." + choice["kind"], choice["kind"])),
        ("as_of", "as_of", Look.DAY),
    )
    million, hours = t(f"million.{counted}"), plain(costs["hours_per_month"])
    note = t("costs.note" if run is None else "costs.run_note", hours=hours, million=million)
    table = Table(columns, choices, lambda choice: bool(choice["asked"]))
    return Part(t("costs.title"), [table, Paragraph(note, "note")])


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
        ("versions", ", ".join(f"{name} {value}" for name, value in block["versions"].items())),
        ("sources", t("again.sources_value", count=len(catalog["sources"]))),
    ]
    pairs = [(t(f"again.{name}"), text) for name, text in facts]
    return Section(t("again.title"), "again", [Command(block["command"]), Facts(pairs)])
