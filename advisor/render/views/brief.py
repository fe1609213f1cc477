"""Writes the answer in a dozen lines: what to rent, what it does, how sure that is, and what to try first.

The rows come from the document of an answer to any task, in the reader's language. On a terminal, rows that
do not fit are shortened or left to `--explain`; no text is cut off and the question always stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any

from advisor.domain import ESTIMATED, Market, Task
from advisor.domain.results import ALONE, CURRENCY, DECIDES, P99_OVER_P50, START, UNMEASURED, UNPRICED
from advisor.domain.words import ENGINES
from advisor.messages import (
    FieldName,
    Message,
    Spell,
    ceil_ms,
    code_of,
    format_duration,
    format_rate,
    format_span,
    format_usd,
    option_name,
    short_usd,
)
from advisor.render.blocks import Command, Facts, Leaf, Paragraph, lower_rate, per_month, percent, translated
from advisor.render.borderline import BEYOND_COUNT, QUOTA, SAFE, TRIAL, Behind, modest
from advisor.render.facts import (
    OF_A_SPEC,
    answer_facts,
    covers_clouds,
    decision_of,
    most_run_usd,
    ordered_name,
    place_name,
    run_usd,
    spec_name,
    type_name,
)
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.phrases import count_text, gpu_text, seconds_text, speculation_message
from advisor.render.price_doubt import doubt_message, doubt_sentences, price_sentences
from advisor.render.sentences import (
    asked_sentence,
    basis_sentence,
    behind_text,
    borderline_calls,
    borderline_sentence,
    bound_name,
    calls_of_chosen,
    disk_name,
    evidence_text,
    instead_text,
    live_sentence,
    never_measured,
    owners_of,
    per_hour,
    price_source,
    question_text,
    relax_sentence,
    requests_text,
    stage_name,
)
from advisor.render.text import INDENT, SURE, WIDTH, fact, folded, local_or_order
from advisor.render.views.alternatives import cheapest_step, is_far_smaller, other_kinds, ranked_usd
from advisor.render.views.specs import (
    TIMES,
    api_message,
    machine_message,
    placement_message,
    served_words,
    tuning_messages,
)

Record = Mapping[str, Any]
# Lines of an answer, which what it must say may exceed.
LINES = 12
# A row: the key of its title, its text, then shorter versions of it.
Row = tuple[str, ...]
# Rows to shorten where there are too many lines, in this order; those that may go are left out once they have
# no shorter text.
_SPARED = (
    *("more", "basis", "on", "take", "does", "try", "cheaper", "note", "assumed"),
    *("price", "for", "looked", "second", "way_3"),
)
_MAY_GO = frozenset(("more", "way_3", "try", "cheaper", "looked", "second"))
# Fields of a question that a short answer has in another row, or in its `assumed`.
_IN_OTHER_ROWS = frozenset(("context_tokens", "precision", "api_usd_per_million"))
_LENGTHS = frozenset(("input_tokens", "output_tokens"))
# Least savings, in dollars, for which a borderline spec gets a line.
_LITTLE = {"month": 10.0, "run": 1.0}
_ANYWHERE = Message("any region ({option})", option=FieldName("region"))
# A lower bound above this share of the median is omitted.
_AS_GOOD = 0.98
# A stage used less than this share is not named as the next bottleneck.
_NEXT = 0.1


def brief_text(document: Record) -> str:
    """Return the answer for a terminal, in about `LINES` lines: the spec, or that no spec meets the question.
    `--explain` prints the rest."""
    t = report_texts("en")
    spec = document["recommendation"] or document["nearest"]
    asked = question_text(document, t)
    if document["recommendation"] is None:
        place = document["request"]
        where = " ".join(filter(None, (place["cloud"], place["region"])))
        head = t("brief.none", where=where, market=place["market"])
        return "\n".join(fitted(head, list(_none_rows(asked, document, t)), t))
    rows: list[Row] = [("price", *doubt_sentences(document, t)), *brief_rows(asked, document, t)]
    if live := document.get("live"):
        rows.insert(0, ("live", live_sentence(live, t)))
    for call in calls_of_chosen(document):  # the start of its command, which `--explain` prints whole
        start = " ".join(call["trial"]["command"].split()[:4])
        for number, (name, *texts) in enumerate(rows):
            if name == "trial":
                rows[number] = name, t("brief.command", trial=texts[0], command=start)
    rows.append(("more", t("brief.explain")))
    return "\n".join(fitted(head_line(spec, t), rows, t))


def head_line(spec: Record, t: Texts, *, clouds: bool = True) -> str:
    """'g6.xlarge + local (233 GiB)   $0.805/h, $588 a month   aws us-east-1, on-demand', or a run's cost."""
    price, paid = spec["price"] or {}, "no price"
    usd = price.get("total_usd_per_hour")
    if usd is not None:
        whole = t("brief.month", usd=per_month(usd))
        if (of_run := run_usd(spec)) is not None:
            whole = t("brief.whole", usd=short_usd(of_run))
        is_old = price["kind"] != ESTIMATED and price.get("total_high_usd_per_hour", usd) > SURE * usd
        seen = f" of {price['as_of']}" if is_old else ""
        paid = f"{format_usd(usd)}/h{seen}, {whole}"
    elif price:
        paid = f"{format_usd(price['usd_per_hour'])}/h without the disk, whose price is not known"
    where = f"{place_name(spec, clouds=clouds)}, {spec['market']}" if spec["region"] else ""
    parts = [part for part in (f"{spec_name(spec)} + {local_or_order(spec['disk'])}", paid, where) if part]
    line = "   ".join(parts)
    return line if len(line) <= WIDTH else "  ".join(parts)


def fitted(head: str, rows: Sequence[Row], t: Texts) -> list[str]:
    """Return the lines of a head and its rows. While there are more than `LINES`, the rows of `_SPARED` are
    shortened, and left out if they may go."""
    top = folded(head, indent=2)
    versions = {name: shorter for name, *texts in rows if (shorter := _ever_fewer_lines(texts))}

    def are_too_many() -> bool:
        return len(top) + sum(len(texts[0]) for texts in versions.values()) > LINES

    for name in _SPARED:
        while are_too_many() and len(versions.get(name, ())) > 1:
            versions[name].pop(0)
        if are_too_many() and name in _MAY_GO:
            versions.pop(name, None)
    titles = {name: t(f"brief.{name}") for name in versions}
    return top + [
        fact("" if number else titles[name], line)
        for name, (lines, *_) in versions.items()
        for number, line in enumerate(lines)
    ]


def _ever_fewer_lines(texts: Sequence[str]) -> list[list[str]]:
    """Return the lines of a row's longest text, then of each shorter one that takes fewer lines."""
    versions = list[list[str]]()
    for lines in (folded(text, WIDTH - INDENT) for text in texts if text):
        if not versions or len(lines) < len(versions[-1]):
            versions.append(lines)
    return versions


def brief_leaves(document: Record, t: Texts, spell: Spell = option_name) -> list[Leaf]:
    """Return the same rows for a report or a page, which can show all of them: the facts in one block, then
    how strong the evidence is, then the trials. The row for notes is left out here."""
    rows = whole_rows({"answer": answer_facts(document), "recommendation": document}, t, spell)
    for elsewhere in ("basis", "note"):
        rows.pop(elsewhere, None)
    if second := rows.pop("second", ""):
        rows["take"] = t.listed([rows["take"], second])
    titles = {name: t(f"brief.{name}") for name in rows}
    facts = [(titles[name][:1].upper() + titles[name][1:], text) for name, text in rows.items() if text]
    spec = document["recommendation"]
    return [Facts(facts), Paragraph(basis_sentence(spec, t), "note"), *trial_leaves(document, t)]


def whole_rows(section: Record, t: Texts, spell: Spell = option_name) -> dict[str, str]:
    """Return the longest text of each row of a section's answer, keyed by the row's title."""
    rows = brief_rows(asked_sentence(section["recommendation"], t), section["recommendation"], t, spell)
    return {name: text for name, text, *_ in rows}


def brief_rows(asked: str, document: Record, t: Texts, spell: Spell = option_name) -> Iterator[Row]:
    """Yield the rows below the headline of an answer. `spell` writes the names of the question's fields."""
    spec, request = document["recommendation"], document["request"]
    yield "for", asked, *_shorter_questions(document, t)
    yield "on", *_machine(spec, request, t)
    yield "does", *(_started(text, document, t) for text in _rate(spec, request, t))
    yield "bound", *_bound(spec, request, t)
    yield "sure", sure_text(document, t)
    for sentence in decision_of(document).get("sentences", ()):
        if code_of(sentence) in (TRIAL, SAFE, BEYOND_COUNT, QUOTA):
            yield code_of(sentence), translated(sentence, t, spell)
    yield from _borderline_rows(document, t)
    call, is_doubtful = document.get("price_call") or {}, bool(doubt_sentences(document, t))
    # One line about prices is enough.
    if call.get("cheaper") and "per" in call and not is_doubtful:
        yield "cheaper", translated(price_sentences(call, clouds=covers_clouds(document))[-1], t)
    if api := (spec.get("cost") or {}).get("api"):
        yield "api", translated(api_message(api, spec["price"]["total_usd_per_hour"]), t)
    for name, other in zip(("take", "second"), other_kinds(document), strict=False):
        yield name, *(_other(other, document, t, is_short=short) for short in (False, True))
    smaller = list(_smaller(document, t))
    yield "shrink", t.listed(smaller), *smaller[:1]
    yield _assumed(document, t, spell)
    notes = _notes(document, t)
    yield "note", t.listed(notes[:2]), *notes[:1]
    basis = [evidence_text(spec, t)]
    basis += [translated(each, t) for each in spec["extrapolation"] if code_of(each) not in UNMEASURED]
    priced = [] if is_doubtful else price_source(spec, t)
    yield "basis", t.listed([*basis, *priced]), t.listed(basis), basis[0]


def _shorter_questions(document: Record, t: Texts) -> Iterator[str]:
    """Yield the question without what is in other rows, the least important first."""
    usual = (each.parameters for each in document["assumptions"] if code_of(each) == DECIDES)
    lengths = _LENGTHS if any("output" in parameters for parameters in usual) else ()
    for left_out in (("context_tokens",), _IN_OTHER_ROWS, (*_IN_OTHER_ROWS, *lengths)):
        yield question_text(document, t, *left_out)


def _notes(document: Record, t: Texts) -> list[str]:
    """Return what the market brings with it, then the warnings that have no other row: the basis has what was
    never measured or is extrapolated."""
    spec = document["recommendation"]
    codes = {translated(text, t): code_of(text) for text in document["warnings"]}
    in_rows = ("price", *UNMEASURED, CURRENCY, spec["market"])
    live = (document.get("live") or {"warnings": ()})["warnings"]
    elsewhere = {*live, *(translated(each, t) for each in spec["extrapolation"])}
    of_market = [text for text, code in codes.items() if code == spec["market"]]
    if spec["market"] == Market.SPOT and (terms := spec["price"].get("terms")):
        of_market = [t("brief.spot", terms=translated(terms, t))]
    notes = [t.listed(of_market)] if of_market else []
    return notes + [text for text, code in codes.items() if code not in in_rows and text not in elsewhere]


def _assumed(document: Record, t: Texts, spell: Spell, codes: Sequence[str] = (DECIDES,)) -> Row:
    """Return the row of the assumptions that move the price; `--explain` prints the rest."""
    assumed = [translated(text, t, spell) for text in document["assumptions"] if code_of(text) in codes]
    if document["request"]["region"] is None:
        assumed.insert(0, translated(_ANYWHERE, t, spell))
    return "assumed", *(t.listed(assumed[:count]) for count in range(len(assumed) or 1, 0, -1))


def _bound(spec: Record, request: Record, t: Texts) -> list[str]:
    """Return what binds the rate and, if memory alone takes that many instances, the users that one holds."""
    text, serving = binding_text(spec, t), spec.get("serving")
    users = request.get("users")
    if not (serving and users and spec["count"] > 1):
        return [text]
    each = serving["memory_per_gpu"]["largest_concurrency"] * serving["placement"]["replicas"]
    if request["think_seconds"] or ceil(users / each) != spec["count"]:
        return [text]
    return [t("brief.alone", bound=text, held=f"{each:,}", users=f"{users:,}"), text]


def _started(text: str, document: Record, t: Texts) -> str:
    """Return the text about a run, with the start-up minutes if they exceed a hundredth of its duration."""
    run = document["recommendation"].get("run")
    said = next((each for each in document["assumptions"] if code_of(each) == START), None)
    if not run or said is None or (minutes := said.parameters["minutes"]) < 0.6 * run["hours"]["median"]:
        return text
    load = said.parameters.get("load")
    times = {"minutes": format_duration(60 * minutes), "load": format_duration(60 * (load or 0))}
    return t("brief.loaded" if load else "brief.started", run=text, **times)


def _smaller(document: Record, t: Texts) -> Iterator[str]:
    """Yield what a smaller number format brings: the cheapest other spec and, if neither that nor the chosen
    one is sure, the first format (it changes answers least) that makes the chosen one sure."""
    spec, steps = document["recommendation"], document.get("serving", {}).get("steps", ())
    sure, least = spec["predicted"]["confidence"], cheapest_step(document)
    found = [(least, instead_text(least), least["instead"])] if least else []
    if all((each["probability"] or sure) < sure for each in (spec, *(gives for *_, gives in found))):
        formats = [step for step in steps if step["gives"] and step["option"].startswith("--precision")]
        here = [(step, t("brief.same"), step["gives"]) for step in formats]
        # Documents of earlier versions do not hold the chance.
        found = [each for each in here if (each[-1].get("probability") or 0.0) >= sure][:1] + found
    for step, name, gives in found:
        likely = gives["probability"] and t("brief.likely", percent=percent(modest(gives["probability"])))
        says = t("brief.comma").join(filter(None, (name, likely)))
        yield t("brief.smaller", option=step["option"], spec=says)
    if found:
        yield t("brief.answers_change")


def _borderline_rows(document: Record, t: Texts) -> Iterator[Row]:
    for call in _worth_a_trial(document):
        yield "try", borderline_sentence(call, t, clouds=covers_clouds(document))


def _worth_a_trial(document: Record) -> list[Record]:
    """Return the borderline candidates that would save more than a `_LITTLE`."""
    return [
        call
        for call in borderline_calls(document)
        if all((call[f"saves_usd_per_{per}"] or least) >= least for per, least in _LITTLE.items())
    ]


def _none_rows(asked: str, document: Record, t: Texts) -> Iterator[Row]:
    """Yield the rows if no spec meets the question: the question, the nearest spec, and what to relax."""
    request, nearest, counts = document["request"], document["nearest"], document["catalog"]
    yield "for", asked
    if nearest:
        yield "nearest", head_line(nearest, t, clouds=covers_clouds(document))
        yield "misses", t.listed(translated(text, t) for text in nearest.get("misses", ()))
        yield "does", *_rate(nearest, request, t)
        yield "bound", binding_text(nearest, t)
    for name, way in zip(("ways", "way_2", "way_3"), document["relax"], strict=False):
        yield name, relax_sentence(way, request, t)
    yield from _borderline_rows(document, t)
    yield _assumed(document, t, option_name, (ALONE, DECIDES))
    reasons = counts["rejected_by_reason"].items()
    said = t.listed(f"{t.known('reason.' + reason, reason)} {count:,}" for reason, count in reasons)
    # Types without a price are not counted as offers.
    count = max(counts["offers_considered"], sum(counts["rejected_by_reason"].values()))
    yield "looked", said and t("brief.types", count=f"{count:,}", reasons=said)
    yield "note", t.listed(translated(text, t) for text in document["warnings"] if code_of(text) == UNPRICED)
    yield "more", t("brief.explain_none")


def _machine(spec: Record, request: Record, t: Texts) -> list[str]:
    """'1 x L40S 45 GiB, 4 vCPUs (2 cores), 32 GiB RAM; batch 32, bf16', then without vCPUs and RAM; a served
    model adds 'vLLM 0.18, bf16', any speculative decoding and how several GPUs share it."""
    machine, serving = translated(machine_message(spec, decodes=False), t), spec.get("serving")
    machines = [machine, machine.partition(t("brief.comma"))[0]] if spec["gpu"] else [machine]
    runs = list[str]()
    if spec.get("batch_size") and request["task"] != Task.PREPROCESSING:
        runs = [t("limit.batch_size", value=spec["batch_size"]), spec["precision"]]
        runs += [spec["memory_format"]] if spec["memory_format"] not in (None, "contiguous") else []
    elif "tuning" in spec:
        runs = [translated(text, t) for text in tuning_messages(spec["tuning"])]
    elif serving:
        engine, drafts = ENGINES.get(serving["engine"], serving["engine"]), speculation_message(request)
        runs = [f"{engine} {serving['engine_version']}".strip(), serving["precision"]]
        runs += [translated(drafts, t)] if drafts else []
        several = spec["predicted"]["gpus_used"] > spec["count"]
        runs += [translated(placement_message(serving["placement"]), t)] if several else []
    return [t.listed(filter(None, (each, t("brief.comma").join(runs)))) for each in machines]


def _rate(spec: Record, request: Record, t: Texts) -> list[str]:
    """Return the rate, the latencies of a request (limited ones first), and the time of the run or the cost
    of a million samples; then a shorter version without latencies that have no limit. If the question sets no
    target or limit, `sure_text` gives the lower bound."""
    predicted = spec["predicted"]
    serving, run = spec.get("serving"), spec.get("run")
    rates, unit, confidence = predicted["throughput"], predicted["unit"], predicted["confidence"]
    lower = lower_rate(rates["lower"])
    rate = f"{format_rate(rates['median'])} {t.known(f'unit.{unit}', unit)}"
    if run:
        text = t("brief.run", rate=rate, hours=format_span(run["hours"]["median"]))
        if spec["probability"] is not None:
            text += t("brief.likely_run", percent=percent(confidence), most=_most_of_run(spec, t))
        return [text]
    offered = serving and serving["offered_requests_per_second"]
    if serving and not (request.get("users") or offered):
        rate = t("brief.flight", rate=rate, flight=count_text(serving["rates"]["concurrency"]))
    if serving and (served := served_words(serving["rates"], request)):
        rate = t("brief.served", rate=rate, **served)
    if serving and offered:
        asked, each = requests_text(offered, t), serving["rates"]["requests_per_second"]
        rate, lower = f"{asked}{t.aside(rate)}", lower_rate(each["lower"])
    # If requests arrive at a fixed rate, the lower bound mostly equals that rate and is omitted.
    if spec["probability"] is not None and rates["lower"] < _AS_GOOD * rates["median"]:
        rate = t("brief.rate", median=rate, percent=percent(confidence), lower=lower)
    elif serving and offered:
        most = lower_rate(serving["most"]["requests_per_second"]["lower"])
        rate = t("brief.offered", rate=rate, most=most)
    times = [t("brief.comma").join(_times(spec, request, t, is_short=short)) for short in (False, True)]
    return [t.listed(filter(None, (rate, each, _per_million(spec, t)))) for each in times]


def _per_million(spec: Record, t: Texts) -> str:
    """'$0.60 per million output tokens', or per million samples; '' without a price."""
    cost = spec.get("cost") or {}
    if tokens := cost.get("usd_per_million_output_tokens"):
        return t("brief.tokens", usd=short_usd(tokens["median"]))
    usd = cost.get("usd_per_million_samples")
    return "" if usd is None else t("brief.samples", usd=short_usd(usd))


def _most_of_run(spec: Record, t: Texts) -> str:
    """'8 h 42 min, $16.20': the upper bounds of a run's time and cost."""
    hours, usd = spec["run"]["hours"]["upper"], most_run_usd(spec)
    time = format_span(hours, up=True) if hours is not None else t("unknown")
    if usd is None:
        return time
    is_sure = doubt_message(spec["price"]) is None
    key, day = "brief.and" if is_sure else "brief.and_dated", spec["price"]["as_of"]
    return t(key, hours=time, usd=short_usd(usd), day=day)


def _times(
    spec: Record, request: Record, t: Texts, *, is_short: bool = False, with_limits: bool = True
) -> Iterator[str]:
    """Yield 'p99 of a batch 48 ms (limit 50; 90 % sure of at most 52)' if limited; for a served model limited
    times of a request, then the means of the others. `is_short`: only limited times, if there are any;
    `with_limits`: each limited time with its limit and its bound."""
    confidence = spec["predicted"]["confidence"] if with_limits and spec["probability"] is not None else None
    latency, limit = spec.get("latency") or {"p99_ms": None}, request.get("max_latency_ms")
    if latency["p99_ms"] is not None and limit is not None:
        p99 = ceil_ms(P99_OVER_P50 * latency["p50_ms"] / 1000) / 1000
        text = t("brief.batch_time", p99=seconds_text(p99))
        yield _limited(text, limit / 1000, latency["p99_ms"] / 1000, confidence, t)
    times = TIMES if "serving" in spec else ()
    limits = {name: request[option] for name, _, option in times if request.get(option) is not None}
    for name, title, _ in sorted(times, key=lambda time: time[0] not in limits):
        is_bare = name not in limits
        if (is_bare and (name == "e2e" or (is_short and limits))) or (
            name == "tpot" and spec["serving"]["output_tokens"] <= 1
        ):
            continue
        which, _, most = str(limits.get(name, "")).rpartition(":")
        times_of = spec["serving"]["percentiles"] if which else spec["serving"]["rates"]
        rates = times_of[f"{name}_seconds"][which] if which else times_of[f"{name}_seconds"]
        text = " ".join(filter(None, (title, which, seconds_text(rates["median"]))))
        if is_bare:
            yield text.replace(" ", "\u00a0")
            continue
        text = text if which else t("brief.mean", time=text)
        yield _limited(text, float(most) / (1 if name == "e2e" else 1000), rates["upper"], confidence, t)


def _limited(time: str, limit: float, upper: float | None, confidence: float | None, t: Texts) -> str:
    """'TTFT p99 343 ms (limit 500; 90 % sure of at most 503)': a time, its limit and bound, in seconds, which
    are written in the unit of the time if they have the same; without a `confidence` only the time."""
    unit = f" {time.rpartition(' ')[2]}"
    if confidence is None:
        return time.replace(" ", "\u00a0")
    ends = [seconds_text(inf if end is None else end, up=True) for end in (limit, upper)]
    if all(end.endswith(unit) for end in ends):
        ends = [end.removesuffix(unit) for end in ends]
    within, most = ends
    text = f"{time}{t.aside(t('brief.limit', limit=within, percent=percent(confidence), most=most))}"
    return text.replace(" ", "\u00a0", time.count(" "))


def binding_text(spec: Record, t: Texts) -> str:
    """Return the bottleneck and the stage that would bind next; for fine-tuning, only what binds the GPUs."""
    if "tuning" in spec:  # documents of earlier versions do not tell the links apart
        binds = spec["tuning"].get("bound_by", "gpus")
        return t("stage.accelerator" if spec["predicted"]["gpus_used"] == 1 else f"stage.{binds}")
    text, used = bound_name(spec, t), spec.get("utilization", {})
    share, stage = max(((used[name], name) for name in used if name != spec["bottleneck"]), default=(0.0, ""))
    if share < _NEXT:
        return text
    second = stage_name(stage, t, on_cpu=spec["gpu"] is None, unit=spec["predicted"]["unit"])
    return t("brief.next", first=text, second=second, share=percent(share))


def sure_text(document: Record, t: Texts) -> str:
    """Return how sure the answer is, with its trial; without any target or limit, return the bounds."""
    spec = document["recommendation"]
    if spec["probability"] is not None:
        return translated(next(iter(decision_of(document).get("sentences", ())), ""), t)
    predicted, run = spec["predicted"], spec.get("run")
    sure = percent(predicted["confidence"])
    if run:
        return t("brief.unlimited", percent=sure, most=_most_of_run(spec, t))
    unit = t.known(f"unit.{predicted['unit']}", predicted["unit"])
    bounds = f"{lower_rate(predicted['throughput']['lower'])} {unit}"
    if users := document["request"].get("users"):
        return t("brief.users_fit", users=f"{users:,}", percent=sure, bounds=bounds)
    return t("brief.unaimed", percent=sure, bounds=bounds)


def trial_leaves(document: Record, t: Texts) -> Iterator[Paragraph | Command]:
    """Yield the trials that settle an answer, each as a sentence and a command."""
    clouds = covers_clouds(document)
    for key, calls in (("next.trial", calls_of_chosen(document)), ("next.other", _worth_a_trial(document))):
        for call in calls:
            usd, chance = per_hour(call["usd_per_hour"], t), percent(modest(call["probability"]))
            key = "next.share" if key == "next.trial" and call["count"] > 1 else key
            name, pick = type_name({**call, "count": 1}, clouds=clouds), document["recommendation"]
            is_same = pick and all(call.get(field) == pick[field] for field in ("region", *OF_A_SPEC))
            if key == "next.other" and is_same:
                name = t("next.same", disk=disk_name(call["disk"], t))
            yield Paragraph(t(key, name=name, count=call["count"], usd=usd, chance=chance))
            yield Command(call["trial"]["command"])


def _other(spec: Record, document: Record, t: Texts, *, is_short: bool) -> str:
    """'g6.2xlarge (L4) $0.978/h, 71 % sure, p99 of a batch 48 ms'; a run has hours and cost, and without any
    target or limit there is the rate. A spec that costs less ends with why it is not the chosen one.
    `is_short`: without times that have no limit."""
    clouds, request = covers_clouds(document), document["request"]
    place = f" {place_name(spec, clouds=clouds)}" if clouds else ""
    market = t.known(f"market.{spec['market']}", spec["market"])
    place += f", {market}" if request["market"] == "any" else ""
    costs, doubt = per_hour(spec["price"]["total_usd_per_hour"], t), doubt_message(spec["price"])
    costs += t.aside(translated(doubt, t)) if doubt else ""
    chosen, gpu, why = document["recommendation"], "", spec.get("behind")
    cheaper = 1 - ranked_usd(spec) / ranked_usd(chosen)
    reason = behind_text(why, t, cheaper)
    reason += t("behind.smaller") if cheaper < 0 and spec.get("run") and is_far_smaller(spec, chosen) else ""
    if spec["gpu"]:
        never = [] if why == Behind.UNMEASURED or never_measured(chosen, t) else never_measured(spec, t)
        never += owners_of(spec, t)
        kin = chosen["gpu"] or {}
        is_kin = spec["gpu"]["name"] == kin.get("name") or spec["gpu"]["count"] != kin.get("count")
        is_counted = spec["gpu"]["count"] > 1 or (spec.get("run") and is_kin)
        number = f"{spec['gpu']['count']} x " if is_counted else ""
        gpu = t.aside(t("brief.comma").join([number + gpu_text(spec["gpu"]["name"]), *never]))
    run, predicted = spec.get("run"), spec["predicted"]
    says = [f"{ordered_name(spec)}{gpu}{place} {costs}"]
    if spec["probability"] is not None:
        says.append(t("brief.likely", percent=percent(modest(spec["probability"]))))
    if run:
        says += [t("brief.done", hours=format_span(run["hours"]["median"]))]
        says += [] if (usd := run_usd(spec)) is None else [short_usd(usd)]
    limited = is_short and not any(request.get(option) for _, _, option in TIMES)
    times = [] if limited else list(_times(spec, request, t, is_short=True, with_limits=False))
    if spec["probability"] is None and not run:
        unit = predicted["unit"]
        says.append(f"{format_rate(predicted['throughput']['median'])} {t.known(f'unit.{unit}', unit)}")
        says.append(_per_million(spec, t))
        times = []
    return t("brief.comma").join(filter(None, [*says, *times])) + reason
