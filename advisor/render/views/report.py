"""Arranges a report's document as blocks, in the order of a reader's likely questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from advisor.catalog.overlay import is_live, refresh_command
from advisor.domain import HOURS_PER_MONTH, LIST, Market
from advisor.domain.money import term_hours
from advisor.domain.words import LlmEngine
from advisor.messages import Message, format_span, format_usd, short_usd
from advisor.render.blocks import (
    Block,
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
    lower_rate,
    percent,
    plain,
    translated,
)
from advisor.render.borderline import LEVEL, Behind, modest
from advisor.render.diff import key_of, spec_document
from advisor.render.document import is_language
from advisor.render.facts import (
    OF_A_SPEC,
    covers_clouds,
    decision_of,
    doubt_of,
    hours_of_month,
    is_committed,
    on_demand_usd,
    per_month,
    run_usd,
    section_run_usd,
    share_of_month,
    type_name,
)
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.language_document import OUTPUT_UNIT, TUNING_UNIT
from advisor.render.phrases import gpu_text
from advisor.render.records import WEAK
from advisor.render.sentences import (
    asked_sentence,
    basis_sentence,
    behind_text,
    borderline_calls,
    borderline_sentence,
    calls_of_chosen,
    columns_of,
    disk_name,
    gpu_name,
    headline,
    live_sentence,
    price_call_leaves,
    relax_sentence,
    unit_name,
)
from advisor.render.text import SURE, lower_name
from advisor.render.views.alternatives import other_kinds
from advisor.render.views.brief import trial_leaves, whole_rows
from advisor.render.views.details import (
    Room,
    network_parts,
    notes_parts,
    other_parts,
    place_parts,
    price_part,
    serving_parts,
)
from advisor.render.views.specs import machine_message, spec_facts
from advisor.render.views.totals import all_of, totals_section, trial_of

Record = Mapping[str, Any]

# How many more specs than three a first page shows.
_MORE = 4
# Reasons that the table of what was compared names.
_UNSURE = (Behind.PRICE, Behind.UNMEASURED)


# These limits keep a file below 1.5 MB for any number of workloads.
FILE = (Room(10, rows=12), Room(50, rows=2, alternatives=2), Room(inf, brief="totals.brief", has_costs=False))
# These limits keep Markdown within the maximum length of a comment.
COMMENT = (
    Room(inf, rows=6, alternatives=8),
    Room(inf, brief="markdown.pages"),
    Room(inf, brief="markdown.brief", has_costs=False),
)


def report_page(document: Record, language: str, room: Room) -> Page:
    """Return the blocks of a report: a page per workload for those who pay, then the appendices."""
    t = report_texts(language)
    sections = document["workloads"]
    blocks: list[Block] = [totals_section(document, t, room.brief)] if len(sections) > 1 else []
    # Those who pay only read the first pages.
    for number, section in enumerate(sections, 1):
        blocks.append(Section(_name(section, t), f"w{number}", list(_answer(section, t, room))))
    for number, section in enumerate(sections if not room.brief else (), 1):
        appendix = t("appendix.title", name=_name(section, t))
        blocks.append(Section(appendix, f"w{number}-more", list(_appendix(section, t, room))))
    again = _again(document, "" if language == "en" else f" --language {language}", t)
    first = sections[0] if sections else {"name": ""}
    title = _name(first, t) if first["name"] == document["title"] else document["title"]
    return Page(t("kicker_of", date=document["as_of"]), title, [*blocks, again])


def _name(section: Record, t: Texts) -> str:
    """'googlenet 推理': a workload's default name in the reader's language, or the name that it was given."""
    name, task = str(section["name"]), str(section["answer"]["task"])
    model = name.removesuffix(f" {task}")
    is_usual = model == section["answer"]["model"] or f" --model {model} " in section["command"]
    return f"{model} {translated(Message(task), t)}" if model != name and is_usual else name


def short_parts(section: Record) -> Iterator[Leaf | Part]:
    """Yield one answer with its chart, as a notebook shows it."""
    t, answer, room = report_texts("en"), section["recommendation"], Room(1, rows=8)
    yield from _answer(section, t, room)
    if is_language(answer):
        yield from (*serving_parts(answer, t), *other_parts(answer, t, room))
    else:
        yield price_part(section, t, room)
    yield from notes_parts(answer, t)


def _appendix(section: Record, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    answer = section["recommendation"]
    spec = answer["recommendation"]
    sure = section["answer"]["confidence"]
    yield Paragraph(t("answer.p10", p10=lower_name(sure), percent=plain(100 * sure)), "note")
    if spec and not room.is_tight:
        yield Part(t("detail.title"), [spec_facts(spec, answer["request"], t)], detail=True)
    yield from serving_parts(answer, t) if is_language(answer) else network_parts(section, t, room)
    yield from other_parts(answer, t, room)
    yield from notes_parts(answer, t)
    yield from place_parts(section, t, room)


def _answer(section: Record, t: Texts, room: Room) -> Iterator[Leaf | Part]:
    """Yield what to rent, its cost and chance, what it was compared with, and what to do next."""
    answer, facts = section["recommendation"], section["answer"]
    if answer["recommendation"] is None:
        yield from _nearest(section, t)
        return
    yield Paragraph(t.joined([headline(answer, t), *_cost_sentences(section, t)]), "answer")
    yield _payers_facts(section, t)
    leaves = [*_unproven(section, t), *trial_leaves(answer, t)]
    trial = trial_of(section) if facts["spec"]["risk"] >= WEAK and room.has_costs else None
    unproven = [t("answer.unproven", **trial)] if trial else []
    yield Paragraph(t.joined([basis_sentence(answer["recommendation"], t), *unproven]), "note")
    if live := answer.get("live"):
        yield Paragraph(_capitalised(live_sentence(live, t)), "note")
    if not section["complete"]:
        yield Paragraph(t("answer.saved"), "note")
    if price := list(price_call_leaves(answer, t)):
        whole = [leaf._replace(text=_capitalised(leaf.text)) for leaf in price if isinstance(leaf, Paragraph)]
        yield Part(t("price_call.title"), [*whole, *(leaf for leaf in price if isinstance(leaf, Command))])
    if room.has_costs:
        if section["costs"] and section["costs"]["choices"]:
            yield _costs(section, t)
        yield Part(t("compared.title"), list(_compared(section, t, room)))
        yield Part(t("next.title"), [*leaves, *_today(section, t)])


def _capitalised(fragment: str) -> str:
    """Capitalise a fragment of an answer, unless it begins with the name of an instance type."""
    word = fragment.partition(" ")[0].rstrip(",;:")
    return fragment[:1].upper() + fragment[1:] if word.isalpha() else fragment


def _today(section: Record, t: Texts) -> Iterator[Leaf]:
    """Yield the command to repeat on the day of renting, with live prices if the cloud offers them."""
    command, spec = section["command"], section["answer"]["spec"]
    if not command:
        return
    has_live, again = is_live(spec["cloud"], spec["market"]), "next.again"
    if has_live and is_language(section["recommendation"]):
        yield from (Paragraph(t("next.fetch")), Command(str(refresh_command(spec["cloud"], spec["region"]))))
        again = "next.then"
    elif has_live and " --live" not in command:
        command += " --live"
    yield from (Paragraph(t(again)), Command(command))
    if format := _start_format(section["recommendation"]):
        yield Paragraph(t("next.export", format=format))


# A tool that starts machines of a cloud.
_STARTED_BY = {"aws": "terraform", "gcp": "skypilot", "azure": "skypilot"}


def _start_format(answer: Record) -> str | None:
    """Return a format of `--export` that starts an answer's spec; None if each would be refused."""
    spec = answer["recommendation"]
    serving = spec.get("serving", {})
    is_vllm = serving.get("engine", LlmEngine.VLLM) == LlmEngine.VLLM
    if "tuning" in spec or not is_vllm or answer["request"].get("config"):
        return None
    format = _STARTED_BY.get(spec["cloud"])
    return "skypilot" if format and "pipeline_parallel" in serving.get("placement", {}) else format


# The rows for those who pay; how it runs and what is assumed are in the appendix.
_PAYERS = ("for", "on", "does", "sure", "quota", "cheaper", "api", "take", "shrink")


def _payers_facts(section: Record, t: Texts) -> Facts:
    rows, spec = whole_rows(section, t), section["recommendation"]["recommendation"]
    rows["on"] = translated(machine_message(spec, decodes=False), t)
    others = filter(None, () if section_run_usd(section) else (rows.get("take"), rows.get("second")))
    rows["take"] = t.listed([*_other_texts(section, t), *others])
    titles = {name: t(f"brief.{name}") for name in _PAYERS}
    return Facts(
        [(titles[name][:1].upper() + titles[name][1:], rows[name]) for name in _PAYERS if rows.get(name)]
    )


def _other_texts(section: Record, t: Texts) -> Iterator[str]:
    """Yield the specs that cost the same within the error and have no row, for a run also other kinds, the
    cheapest first and those with one reason together: 'g7e.2xlarge ($62.66) and ..: nearly the same ..'."""
    answer, run, groups = section["recommendation"], section_run_usd(section), dict[str, list[str]]()
    level = [spec for spec in answer["alternatives"] if spec.get("behind") in LEVEL]
    kinds = other_kinds(answer)[:2]
    specs = level[:_MORE] + [spec for spec in kinds if spec not in level[:_MORE]]
    if run is None:  # its other kinds have rows
        specs = [spec for spec in level if spec not in kinds][:_MORE]
    for spec in sorted(specs, key=lambda spec: run_usd(spec) or 0.0):
        groups.setdefault(str(spec.get("behind")), []).append(_priced_name(spec, section, t))
    for why, texts in groups.items():
        yield all_of(texts, t) + behind_text(why, t)


def _priced_name(spec: Record, section: Record, t: Texts) -> str:
    """'g7e.2xlarge ($885)': a spec with its month; 'g7e.2xlarge (1 x L40S) $62.66, 18 h': with its run."""
    price, name = spec["price"], type_name(spec, clouds=covers_clouds(section["recommendation"]))
    if (usd := run_usd(spec)) is None:
        month = per_month(price["total_usd_per_hour"], hours_of_month(section, spec))
        return name + t.aside(short_usd(month))
    paid, most = short_usd(usd), usd * price["total_high_usd_per_hour"] / price["total_usd_per_hour"]
    if most > SURE * usd:
        paid = t("take.moved", usd=paid, day=price["as_of"], high=short_usd(most))
    if gpu := spec["gpu"]:
        name += t.aside(t("gpu.of", count=gpu["count"], name=gpu_text(gpu["name"])))
    return t("take.run", name=name, usd=paid, hours=format_span(spec["run"]["hours"]["median"]))


def _cost_sentences(section: Record, t: Texts) -> Iterator[str]:
    """Yield the cost of a month, or of a run and its planned number, and the range if the price is old."""
    spec, run, hours = section["answer"]["spec"], section_run_usd(section), section.get("hours_per_month")
    name, usd = ("month", spec["usd_per_month"]) if run is None else ("run", run)
    yield t("answer.hours" if hours else f"answer.{name}", usd=short_usd(usd), hours=plain(hours or 0))
    if run and (often := section.get("runs_per_month")):
        yield t("answer.often", runs=plain(often), usd=short_usd(usd * often))
    if doubt := doubt_of(spec, usd):
        ends = {end: short_usd(cost) for end, cost in doubt.items()}
        yield t("answer.doubt", costs=t(f"doubt.{name}"), day=spec["price_as_of"], **ends)
    if is_committed(spec):
        yield from _committed(section, t)


def _committed(section: Record, t: Texts) -> Iterator[str]:
    """Yield what a commitment owes in all, how much of it runs use, and what they would cost on demand."""
    term = term_hours(Market(section["answer"]["spec"]["market"]))
    yield t("answer.term", usd=short_usd(term * section["answer"]["spec"]["usd_per_hour"]))
    usd, share = on_demand_usd(section), share_of_month(section)
    if usd and share:
        runs, hours = (plain(section.get(f"{what}_per_month", 0)) for what in ("runs", "hours"))
        key = "answer.used" if "runs_per_month" in section else "answer.used_hours"
        yield t(key, runs=runs, hours=hours, percent=percent(share), usd=short_usd(usd))
    elif usd:
        hours = format_span(section["recommendation"]["recommendation"]["run"]["hours"]["median"])
        yield t("answer.used_once", hours=hours, term=f"{term:,.0f}", usd=short_usd(usd))


def _unproven(section: Record, t: Texts) -> Iterator[Leaf]:
    """Yield the trial of a pick with weak evidence, unless the answer has a trial of it."""
    spec, command = section["answer"]["spec"], section.get("trial_command")
    if command and spec["risk"] >= WEAK and not calls_of_chosen(section["recommendation"]):
        says, promised = t("next.weak", name=spec["instance_type"]), lower_rate(spec["lower"])
        # With a target or a limit it aims at that; one of several that share the work, at its share.
        if f"--target-throughput {promised.replace(',', '')} " in command:
            says = t.joined([says, t("next.passes", rate=f"{promised} {unit_name(section, t)}")])
        yield from (Paragraph(says), Command(command))


def _compared(section: Record, t: Texts, room: Room) -> Iterator[Leaf]:
    """Yield how many types were compared and why most were left out; then a table of the pick, the specs to
    try, to take or to be safe with instead, and the best of the others."""
    answer, run = section["recommendation"], section_run_usd(section)
    catalog = answer["catalog"]
    left, of = catalog["offers_rejected"], catalog["offers_considered"]
    counts = [
        f"{t.known('reason.' + reason, reason)} {count:,}"
        for reason, count in catalog["rejected_by_reason"].items()
    ]
    about = {"considered": f"{of:,}", "fit": f"{of - left:,}", "rejected": f"{left:,}"}
    # With any market, a type counts once per market; without a target or limit, nothing can be met.
    about["offers"] = t("rejected.offers" if answer["request"]["market"] == "any" else "rejected.types")
    unlimited = answer["recommendation"]["probability"] is None
    about["may"] = t("rejected.can" if unlimited else "rejected.may")
    dear = [t("rejected.dear")] if covers_clouds(answer) else []
    key = "rejected.by" if left else "rejected.none"
    yield Paragraph(t.joined([t(key, **about, reasons=t.listed(counts)), *dear]))
    rows = _compared_rows(section, 3 + min(_MORE, room.alternatives))
    several = len({row["market"] for row in rows}) > 1

    def name(row: Record) -> str:
        paying = [t.known("market." + row["market"], row["market"])] if several else []
        seen = [t(f"kind.{row['price_kind']}")] if row.get("price_kind", LIST) != LIST else []
        return t("brief.comma").join([type_name(row, clouds=covers_clouds(answer)), *paying, *seen])

    regions, disks = ({str(row[of]) for row in rows} for of in ("region", "disk"))
    tuned = len(disks) > 1 and any(disk.count(":") > 1 for disk in disks)
    columns = columns_of(
        t,
        ("role", lambda row: t(f"role.{row['role']}")),
        ("instance", name, Look.LONG),
        *([("region", "region", Look.NAME)] if len(regions) > 1 else []),
        ("gpu", lambda row: gpu_name(row, t) if "gpu" in row else "", Look.LONG),
        *([("disk", lambda row: disk_name(row["disk"], t), Look.LONG)] if tuned else []),
        ("per_hour", "total_usd_per_hour", Look.USD),
        ("per_month" if run is None else "per_run", "usd", Look.COST),
        ("expected", lambda row: row.get("median"), Look.RATE),
        ("at_least", lambda row: row.get("lower"), Look.LOWER),
        *([("sure", "probability", Look.SHARE)] if any(row["probability"] for row in rows) else []),
    )
    yield Table(columns, rows, lambda row: bool(row["role"] == "pick"))


def _compared_rows(section: Record, most: int) -> list[dict[str, Any]]:
    """Return the pick, then others by cost: rows of `price_throughput` with a role, a cost and a chance."""
    answer, run = section["recommendation"], section_run_usd(section)
    pick, safe = answer["recommendation"], decision_of(answer).get("safe")
    # Only specs with a GPU if the pick has one, else only those without: the appendix has all.
    alike = [spec for spec in answer["alternatives"] if (spec["gpu"] is None) is (pick["gpu"] is None)]
    records = [
        ("pick", pick),
        *(("try", call) for call in borderline_calls(answer)),
        *([("safe", safe)] if safe else []),
        *(("meets", each) for each in (*other_kinds(answer)[:2], *(alike or answer["alternatives"]))),
    ]
    drawn = {key_of(row): row for row in section["price_throughput"]}
    ranked = {key_of(spec): spec for spec in (pick, *answer["alternatives"])}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for role, record in records:
        # Documents of earlier versions hold no region and market of a trial: those of the pick.
        key = key_of({"region": pick["region"], "market": pick["market"], **record})
        price = record.get("price") or {"total_usd_per_hour": record.get("usd_per_hour")}
        row = {"total_usd_per_hour": price["total_usd_per_hour"], **record, **spec_document(key)}
        row |= drawn.get(key, {})
        usd: float | None = per_month(row["total_usd_per_hour"], hours_of_month(section, row))
        if run is not None:
            saved = record.get("saves_usd_per_run")
            usd = run_usd(ranked.get(key)) if saved is None else run - saved
        chance = None if record["probability"] is None else modest(record["probability"])
        if role == "meets" and (chance is None or chance < section["answer"]["confidence"]):
            role = "can" if chance is None else "may"
        role = record.get("behind") if record.get("behind") in _UNSURE else role
        row |= {"role": role, "usd": usd, "probability": chance}
        # The same type with another disk or in another region is not a real alternative.
        rows.setdefault(tuple(str(row[name]) for name in OF_A_SPEC), row)
    if any(row.get("price_kind", LIST) != LIST for row in rows.values()):
        for row in rows.values():
            if row["role"] == "safe" and row.get("price_kind") == LIST:
                row["role"] = "firm"
    first, *others = list(rows.values())[:most]
    return [first, *sorted(others, key=lambda row: inf if row["usd"] is None else float(row["usd"]))]


def _nearest(section: Record, t: Texts) -> Iterator[Leaf | Part]:
    answer, clouds = section["recommendation"], covers_clouds(section["recommendation"])
    yield Paragraph(headline(answer, t), "answer")
    if answer["relax"]:
        relaxed = [relax_sentence(relaxation, answer["request"], t) for relaxation in answer["relax"]]
        yield Part(t("relax.title"), [Items(relaxed)])
    yield Paragraph(asked_sentence(answer, t))
    yield from price_call_leaves(answer, t)
    spec = answer["nearest"]
    if spec:
        if misses := [translated(text, t) for text in spec.get("misses", ())]:  # earlier versions lack them
            yield Paragraph(t("nearest.misses", misses=t.listed(misses)))
        yield spec_facts(spec, answer["request"], t)
        yield Paragraph(basis_sentence(spec, t), "note")
    for call in borderline_calls(answer):
        sentence = borderline_sentence(call, t, clouds=clouds)
        yield Part(t("close.title"), [Paragraph(sentence), Command(call["trial"]["command"])])


def _costs(section: Record, t: Texts) -> Part:
    costs, counts = section["costs"], {OUTPUT_UNIT: "output_tokens", TUNING_UNIT: "tokens"}
    counted = counts.get(section["answer"]["spec"]["unit"], "samples")

    def paying(choice: Record) -> str:
        market = t(f"market.{choice['market']}")
        return market + t.aside(translated(choice["terms"], t)) if choice["terms"] else market

    def kind(choice: Record) -> str:
        """'list price', 'observed price, $0.118 to $1.377/h'."""
        said = t.known("kind." + choice["kind"], choice["kind"])
        doubt = doubt_of(choice, choice["usd_per_hour"]) or {}
        ends = {end: format_usd(usd) for end, usd in doubt.items()}
        return t("costs.doubt", kind=said, **ends) if ends else said

    run = section["recommendation"]["recommendation"].get("run")

    def per_run(choice: Record) -> float | None:
        return None if is_committed(choice) else run["hours"]["median"] * choice["usd_per_hour"]

    def saving(choice: Record) -> float | None:
        """The share of a month's bill, which a run on a commitment has only by a plan."""
        has_bill = not run or not is_committed(choice) or "runs_per_month" in section
        return (choice["saving_percent"] or 0) / 100 or None if has_bill else None

    per = ("per_run", per_run, Look.COST) if run else ("per_month", "usd_per_month", Look.COST)
    # A commitment makes no sense for one run, unless it is asked for.
    choices = [each for each in costs["choices"] if not run or each["asked"] or not is_committed(each)]
    columns = columns_of(
        t,
        ("paying", paying),
        ("per_hour", "usd_per_hour", Look.USD),
        per,
        (f"per_million_{counted}", "usd_per_million_samples", Look.USD),
        ("saving", saving, Look.SHARE),
        ("kind", kind),
        ("as_of", "as_of", Look.DAY),
    )
    million, hours = t(f"million.{counted}"), plain(costs["hours_per_month"])
    notes = [t("costs.note" if run is None else "costs.run_note", hours=hours, million=million)]
    notes += _notes_on_markets(section, {choice["market"]: choice["usd_per_hour"] for choice in choices}, t)
    table = Table(columns, choices, lambda choice: bool(choice["asked"]))
    return Part(t("costs.title"), [table, Paragraph(t.joined(notes), "note")])


def _notes_on_markets(section: Record, usd_by: Mapping[str, float], t: Texts) -> Iterator[str]:
    """Yield what the markets bring with them: interruptions, terms, and from when a commitment pays."""
    one_year, whole = usd_by.get("commitment-1y"), usd_by.get("on-demand")
    known = {choice["market"].partition("-")[0] for choice in section["costs"]["choices"]}
    run = section["recommendation"]["recommendation"].get("run")
    lacks = [] if Market.SPOT in known else [t("market.spot")]
    lacks += [] if run or "commitment" in known else [t("costs.commitments")]
    if lacks:
        yield t("costs.unknown", markets=all_of(lacks, t))
    if run is not None and Market.SPOT in usd_by:
        yield t("costs.interrupted")
    if any(market.startswith("commitment") for market in usd_by):
        yield t("costs.term_aws" if section["answer"]["spec"]["cloud"] == "aws" else "costs.term")
    if one_year and whole:
        term = short_usd(12 * HOURS_PER_MONTH * one_year)
        yield t("costs.pays", percent=percent(one_year / whole), usd=term)


def _again(document: Record, options: str, t: Texts) -> Section:
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
    return Section(t("again.title"), "again", [Command(block["command"] + options), Facts(pairs)])
