"""Writes the whole answer as text or Markdown: what `--explain` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from advisor.messages import Message, code_of
from advisor.render.blocks import (
    Block,
    Column,
    Command,
    Facts,
    Items,
    Look,
    Paragraph,
    Part,
    Table,
    percent,
    translated,
)
from advisor.render.facts import covers_clouds, decision_of
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.markdown import rendered
from advisor.render.price_doubt import range_message
from advisor.render.records import largest_text, too_large_text
from advisor.render.sentences import (
    basis_sentence,
    columns_of,
    cost_columns,
    headline,
    live_text,
    price_call_leaves,
    question_text,
    rate_columns,
    relax_sentence,
    settings_columns,
    spec_columns,
    stage_name,
)
from advisor.render.terminal import block_lines
from advisor.render.text import SURE, folded, is_miss
from advisor.render.views.brief import binding_text, brief_leaves, head_line, sure_text, trial_leaves
from advisor.render.views.details import (
    Room,
    evidence_part,
    front_table,
    notes_parts,
    other_parts,
    sensitivity_part,
    served,
    stages_table,
    steps_parts,
)
from advisor.render.views.specs import facts_of

Record = Mapping[str, Any]
FEW, NEAREST, EVERY = (Room(1, rows=rows) for rows in (5, 10, 10**6))
SHOWN_FRONT = 20


def prediction_text(document: Record, **place: str) -> str:
    """Return what an instance does and costs; `place` is its cloud and market if the document has none."""
    return whole_text(folded(head_line({**place, **document}, report_texts("en")), indent=2), document)


def whole_text(head: Sequence[str] | None, document: Record, room: Room = NEAREST) -> str:
    """Return `head`, which names the machine and its price (None: take the recommended spec's), and all
    content of the document of a recommendation or prediction."""
    t = report_texts("en")
    if head is None:
        chosen = document["recommendation"]
        head = folded(head_line(chosen, t), indent=2) if chosen else ()
    return "\n".join([*head, *block_lines(_blocks(document, t, room))])


def recommendation_markdown(document: Record) -> str:
    """Return the answer with its details, to paste into a pull request."""
    t = report_texts("en")
    answer: Iterable[Block] = _answer(document, t)
    if document["recommendation"]:
        leaves = (*brief_leaves(document, t), *price_call_leaves(document, t))
        answer = [Paragraph(headline(document, t), "answer"), *leaves]
    beside = (*_changes(document, t), *_curves(document, t), *other_parts(document, t, FEW))
    return "\n\n".join(rendered([*answer, *beside, *notes_parts(document, t)])) + "\n"


def _blocks(document: Record, t: Texts, room: Room) -> Iterator[Block]:
    yield from _answer(document, t)
    yield from _changes(document, t)
    yield from _curves(document, t)
    yield from other_parts(document, t, room) if "alternatives" in document else ()
    yield from _why(document, t)
    warnings = document["warnings"] if "warnings" in document else document["extrapolation"]
    others = [text for text in warnings if not is_miss(text)]
    yield from notes_parts({**document, "warnings": others}, t)


def _answer(document: Record, t: Texts) -> Iterator[Block]:
    """Yield the facts of the spec, or of the nearest one, how sure it is, and what that is based on."""
    ranks = "alternatives" in document
    spec = document["recommendation"] if ranks else document
    if spec is None:
        yield Paragraph(headline(document, t))
        if nearest := document["nearest"]:
            bound = (t("brief.bound"), binding_text(nearest, t))
            yield Facts([*facts_of(nearest, document["request"], t), bound])
    elif spec["predicted"]:
        price = list(price_call_leaves(document, t))
        sentences = decision_of(document).get("sentences", ())
        rows = {code_of(text): translated(text, t) for text in sentences[1:]}
        own = [sure_text(document, t), rows.pop("", "")] if ranks else []
        beside = {
            t("brief.bound"): binding_text(spec, t),
            t("brief.note"): spec.get("note"),
            t("brief.sure"): t.listed(filter(None, own)),
            **{t(f"brief.{code}"): text for code, text in rows.items()},
            t("brief.price"): t.listed(leaf.text for leaf in price if isinstance(leaf, Paragraph))
            or _price_range(spec.get("price"), t),
        }
        facts = [*_missed(document, t), *facts_of(spec, document["request"], t)]
        facts.insert(0, (t("brief.for"), question_text(document, t)))
        yield Facts([*facts, *((name, text) for name, text in beside.items() if text)])
        yield from (leaf for leaf in price if isinstance(leaf, Command))
        yield from trial_leaves(document, t) if ranks else ()
        yield Paragraph(basis_sentence(spec, t))
    else:
        nothing = f"nothing: {too_large_text(document['request']['batch_size'])}{largest_text(document)}"
        yield Facts([("for", question_text(document, t)), ("does", nothing)])


def _price_range(price: Record | None, t: Texts) -> str:
    """Return the range of an old or spot price today, or '' if the price is sure."""
    if price is None or price["high_usd_per_hour"] <= SURE * price["low_usd_per_hour"]:
        return ""
    return translated(range_message(price), t)


def _missed(document: Record, t: Texts) -> list[tuple[str, str]]:
    """Return what a named instance misses, or may miss, of the question's limits."""
    titles = {"misses": t("lm.misses").lower(), "may_miss": t("whole.may_miss")}
    return [
        (titles[text.code], translated(why, t))
        for text in document.get("warnings", ())
        if isinstance(text, Message) and text.code in titles
        for why in [text.parameters["why"]]
        if isinstance(why, Message)
    ]


def _changes(document: Record, t: Texts) -> Iterator[Part]:
    """Yield what to relax, what other settings bring, and the clouds' replies about live prices."""
    relaxed = [relax_sentence(change, document["request"], t) for change in document.get("relax", ())]
    yield Part(t("relax.title"), [Items(relaxed)] if relaxed else [])
    live = document.get("live") or {"checked": ()}
    known = [row for row in live["checked"] if row["told"] or row["offered"] is not None]
    yield Part(t("live.title"), [Items([live_text(row, t) for row in known])])
    settings = document.get("other_settings", ())
    yield Part(t("settings.title"), [Table(settings_columns(settings, t), settings)] if settings else [])
    yield from steps_parts(document, t)


def _curves(document: Record, t: Texts) -> Iterator[Part]:
    confidence = document["request"]["confidence"]
    batches = document.get("by_batch", ())
    if len(batches) > 1:
        on_cpu = document["gpu"] is None
        columns = [
            *columns_of(t, ("batch", "batch_size", Look.WHOLE)),
            *rate_columns(t, confidence, "throughput.")[:2],
            *(
                Column(heading, f"latency.{which}_ms", Look.RATE)
                for which, heading in (
                    ("p50", "p50 ms"),
                    ("p99", t("table.p99", percent=percent(confidence))),
                )
                if any(point["latency"] for point in batches)
            ),
            *columns_of(t, ("bound", lambda point: stage_name(point["bottleneck"], t, on_cpu=on_cpu))),
        ]
        yield Part(t("batches.title"), [Table(columns, batches)])
    front = served(document).get("front", ())
    if len(front) > 1:
        yield Part(t("lm.front"), [front_table(front, document, t)])
    priced = thinned(document.get("pareto", ()), SHOWN_FRONT)
    if len(priced) > 1:
        columns = [
            *spec_columns(t, priced[0]["region"], clouds=covers_clouds(document)),
            *columns_of(t, ("batch", "batch_size", Look.WHOLE), ("per_hour", "total_usd_per_hour", Look.USD)),
            rate_columns(t, confidence)[0],
            cost_columns(t, priced[0])[0],
        ]
        yield Part(t("price.title"), [Table(columns, priced)])


def _why(document: Record, t: Texts) -> Iterator[Part]:
    explanation = document.get("explanation")
    if not explanation:
        return
    spec = document.get("recommendation") or document.get("nearest") or document
    rates, used = spec["stage_rates"], spec["utilization"]
    stages = [
        {"stage": stage, "samples_per_second": rates[stage], "utilization": share}
        for stage, share in sorted(used.items(), key=lambda item: -item[1])
    ]
    on_cpu = spec["gpu"] is None
    yield Part(t("stages.title"), [stages_table(stages, t, on_cpu=on_cpu)])
    yield sensitivity_part(explanation["gains"], t, on_cpu=on_cpu)
    yield evidence_part(explanation["measured_range"], t, on_cpu=on_cpu)


def thinned(front: Sequence[Record], most: int) -> list[Record]:
    """Return at most `most` points of a front, evenly spread and with both ends."""
    count = min(len(front), most)
    return [front[place * (len(front) - 1) // max(1, count - 1)] for place in range(count)]
