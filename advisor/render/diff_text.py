"""Changes between two answers in words: a paragraph a workload, as plain text or Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.errors import one_line
from advisor.messages import option_name
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.render.blocks import Items, Page, Paragraph
from advisor.render.facts import spec_name
from advisor.render.i18n.catalogue import report_texts
from advisor.render.markdown import page_markdown
from advisor.render.sentences import disk_name
from advisor.render.text import usd_or_dash
from advisor.units import floor_rate, format_counted, format_rate, format_usd

Document = Mapping[str, Any]

# A list of some hundred prices is read by programs; people get the largest changes.
_MOST = 5


def difference_text(document: Document) -> str:
    """For a terminal and the body of a mail."""
    page = _page(document)
    lines, indent = [page.title], ""
    for block in page.blocks:
        if isinstance(block, Paragraph):
            lines += ["", block.text]
            indent = "  "
        elif isinstance(block, Items):
            lines += [] if indent else [""]
            lines += [f"{indent}{text}" for text in block.texts]
    return "\n".join(lines) + "\n"


def difference_markdown(document: Document) -> str:
    """For a pull request or a chat."""
    return page_markdown(_page(document))


def _page(document: Document) -> Page:
    notes = [one_line(text) for text in _notes(document)]
    blocks: list[Items | Paragraph] = [Items(notes)] if notes else []
    for workload in document["workloads"]:
        if workload["status"] in ("added", "removed"):
            verb = "came new" if workload["status"] == "added" else "is no longer asked for"
            spec, usd = workload["spec"], usd_or_dash(workload["usd_per_hour"])
            what = f"{with_disk(spec)}, {usd} an hour" if spec else "nothing fits"
            blocks.append(Paragraph(one_line(f"{workload['name']} {verb} ({what})"), "answer"))
        elif workload["status"] == "changed":
            title = one_line(f"{workload['name']}: {_pick_text(workload)}")
            changes = [one_line(text) for text in _changes(workload)]
            blocks += [Paragraph(title, "answer"), *([Items(changes)] if changes else [])]
    return Page("", headline(document), blocks)


def headline(document: Document) -> str:
    """'What changed from 2026-10-21 to 2026-11-21: 2 of 3 workloads, 1 pick'."""
    days = f"from {document['old']['as_of']} to {document['new']['as_of']}"
    if not document["changed"]:
        return f"Nothing changed {days}"
    rows = document["workloads"]
    changed = sum(row["status"] != "same" for row in rows)
    picks = sum(row["pick"]["changed"] for row in rows if "pick" in row)
    what = f"{changed} of {format_counted(len(rows), 'workload')}"
    return f"What changed {days}: {what}, {format_counted(picks, 'pick')}"


# What answers stand on: its name for people, and the fact that tells one from another.
_STANDS_ON = {
    "catalog": ("the catalogue", "as_of"),
    "performance_model": ("the performance model", "id"),
    "language_predictors": ("the predictors of language models", "ids"),
    "measurements": ("the measurements", "rows"),
    "advisor": ("the advisor", "version"),
}


def _notes(document: Document) -> Iterator[str]:
    totals = document["totals"]
    if totals["compared"] > 1:
        what = f"{totals['compared']} workloads that both reports answer"
        per = (
            ("month_usd", "a month for what is kept running"),
            ("run_usd", "for one run of each that ends"),
        )
        costs = [f"{cost_text(totals[name])} {of}" for name, of in per if totals[name]]
        yield f"{what}: {', '.join(costs)}"
    for name, change in document["stands_on"].items():
        if not change["changed"]:
            continue
        title, field = _STANDS_ON[name]
        old, new = change["old"][field], change["new"][field]
        trained = change["new"].get("trained_on")
        more = f" (fitted on {trained})" if trained != change["old"].get("trained_on") else ""
        same = f"{title} changed (still {old})"
        yield same if old == new else f"{title} changed: {old} -> {new}{more}"
    missing = [
        row["name"]
        for row in document["workloads"]
        if "rejected" in row and any(row["rejected"]["not_named"].values())
    ]
    if missing:
        yield (
            f"rejected types of {_listed(missing)}: only those that both name are compared; "
            "`recommend --explain-rejected` saves all of them"
        )


def _pick_text(workload: Document) -> str:
    pick, cost, run = workload["pick"], workload["cost"], workload.get("run_usd")
    paid = f"{cost_text(run)} for the run" if run else f"{cost_text(cost)} an hour" if cost else ""
    if not pick["changed"]:
        kept = "nothing fits, as before" if pick["new"] is None else with_disk(pick["new"])
        moved = f", {paid}" if cost and cost["percent"] else ""
        return f"the pick stays ({kept}){moved}"
    *others, last = because(workload) or [""]
    why = f" because {' and '.join(filter(None, [', '.join(others), last]))}" if last else ""
    if pick["new"] is None:
        return f"nothing meets the target any more (it was {with_disk(pick['old'])}){why}"
    if pick["old"] is None:
        return f"{with_disk(pick['new'])} meets the target now, and nothing did before{why}"
    to = f"the pick changed from {with_disk(pick['old'])} to {with_disk(pick['new'])}"
    return f"{to} ({paid}){why}"


def _changes(workload: Document) -> Iterator[str]:
    for row in workload["request"]:
        yield f"the question: {_option(row['field'])} is {_value(row['new'])}, was {_value(row['old'])}"
    yield from _first([_price_text(row) for row in workload["prices"]], "price")
    unit = _unit(workload)
    # Rates of two batch sizes say nothing about each other.
    sizes = [(row["new_batch_size"], row["old_batch_size"]) for row in workload["predictions"]]
    pairs = list(zip(workload["predictions"], sizes, strict=True))
    alike = [_rate_text(row, unit) for row, (new, old) in pairs if new == old]
    yield from _first(alike, "prediction")
    others = [f"{with_disk(row)} {new} (was {old})" for row, (new, old) in pairs if new != old]
    if others:
        yield f"the best batch size is another one: {_listed(others)}"
    ranked, rejected = workload["alternatives"], workload["rejected"]
    lists = {
        "new on the list": [with_disk(row) for row in ranked["came"]],
        "gone from the list": [with_disk(row) for row in ranked["went"]],
        "another place on the list": [
            f"{spec_name(row)} from {row['old_place']} to {row['new_place']}" for row in ranked["moved"]
        ],
        "rejected now": [_why(row, row["reason"]) for row in rejected["came"]],
        "no longer rejected": [_why(row, row["reason"]) for row in rejected["went"]],
        "rejected for another reason": [
            _why(row, row["new"], row["old"]) for row in rejected["reason_changed"]
        ],
    }
    yield from (f"{title}: {_listed(names)}" for title, names in lists.items() if names)
    measured = workload["measured"]
    counts = {"new": "came", "gone": "went", "measured again": "changed"}
    some = [f"{len(measured[key])} {name}" for name, key in counts.items() if measured[key]]
    if some:
        yield f"measurements: {', '.join(some)}"


def _first(texts: Sequence[str], noun: str) -> list[str]:
    more = len(texts) - _MOST
    rest = [f"and {format_counted(more, f'other {noun}')} changed"] if more > 0 else []
    return [*texts[:_MOST], *rest]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"


def _price_text(row: Document) -> str:
    percent = row["percent"] or 0.0
    how, size = "cheaper" if percent < 0 else "dearer", abs(percent)
    market = report_texts("en").known(f"market.{row['market']}", row["market"])
    share = f"{size:.0f}" if size >= 10 else f"{size:.2g}"
    return (
        f"{spec_name(row)} ({row['region']}, {market}) became {share} % {how}: "
        f"{format_usd(row['old'])} -> {format_usd(row['new'])} an hour"
    )


def _unit(workload: Document) -> str:
    return workload.get("unit") or "samples/s"


def _rate_text(row: Document, unit: str) -> str:
    now = _interval(row["median"]["new"], row["new_interval"])
    was = _interval(row["median"]["old"], row["old_interval"])
    return f"{with_disk(row)} is predicted {now} {unit}, was {was}"


def _interval(median: float, bounds: Document) -> str:
    """'945 (721 to 1,110)'."""
    lower, upper = format_rate(bounds["lower"]), format_rate(bounds["upper"])
    return f"{format_rate(median)} ({lower} to {upper})"


def because(workload: Document) -> list[str]:
    """The clauses behind "because", the question first; empty where the documents do not tell."""
    clauses = [_clause(reason, _unit(workload)) for reason in workload["pick"]["reasons"]]
    return [clause for clause in dict.fromkeys(clauses) if clause]


# What became of the old pick, and what the new one was. Nothing is said of one that was an alternative:
# what moved it stands beside.
_STANDING = {
    ("old_pick", "rejected"): "{name} is rejected now ({reason}: {detail})",
    ("old_pick", "absent"): "{name} is neither ranked nor named as rejected now",
    ("old_pick", "another_disk"): "the disk of {name} is {disk_now} now, not {disk}",
    ("old_pick", "alternative"): "{name} + {disk} is an alternative now ({usd} an hour)",
    ("old_pick", "considered"): "{name} + {disk} ({usd} an hour) does not meet the question any more",
    ("new_pick", "rejected"): "{name} was rejected before ({reason}: {detail})",
    ("new_pick", "absent"): "{name} was neither ranked nor named as rejected before",
    ("new_pick", "considered"): "{name} + {disk} did not meet the question before",
}


def _clause(reason: Document, unit: str) -> str:
    kind = reason["kind"]
    if kind == "request":
        return f"the question changed ({', '.join(map(_option, reason['fields']))})"
    if kind == "moved":
        return _moved(reason, unit)
    text = _STANDING.get((kind, reason["now" if kind == "old_pick" else "then"]), "")
    words = {**reason, "reason": _reason(reason.get("reason", "")), "disk": local_or(reason["disk"])}
    if "disk_now" in reason:
        words["disk_now"] = local_or(reason["disk_now"])
    return text.format(name=spec_name(reason), usd=usd_or_dash(reason.get("usd_per_hour")), **words)


def _moved(reason: Document, unit: str) -> str:
    clauses = []
    if "usd_per_hour" in reason:
        before, now = reason["usd_per_hour_then"], reason["usd_per_hour"]
        how = "cheaper" if now < before else "dearer"
        clauses.append(f"became {abs(100 * (now / before - 1)):.2g} % {how}")
    if "lower" in reason:
        before, now = floor_rate(reason["lower_then"]), floor_rate(reason["lower"])
        clauses.append(f"has a lower bound of {now:,g} {unit} now, {before:,g} before")
    return f"{spec_name(reason)} {' and '.join(clauses)}"


def with_disk(spec: Document) -> str:
    """'g4dn.xlarge + gp3:158GiB'."""
    return f"{spec_name(spec)} + {local_or(spec['disk'])}"


def local_or(order: str) -> str:
    """'gp3:158GiB', 'local disk'."""
    return disk_name(order, report_texts("en"))


def _why(row: Document, code: str, before: str = "") -> str:
    """'g4dn.xlarge (too slow)', 'g4dn.xlarge (too dear, before too slow)'."""
    was = f", before {_reason(before)}" if before else ""
    return f"{row['instance_type']} ({_reason(code)}{was})"


def _reason(code: str) -> str:
    """'too slow': why a type was passed over."""
    return report_texts("en").known(f"reason.{code}", code)


def _option(field: str) -> str:
    """'--max-price': the option that asks for a field of a request."""
    known = (kind.declared.get(field) for kind in (NetworkQuestion, ServingQuestion, TuningQuestion))
    return next((each.option for each in known if each), option_name(field))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("name") or ", ".join(f"{name} {_value(each)}" for name, each in value.items()))
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or "not set"
    return "not set" if value is None else f"{value:,.12g}" if isinstance(value, float) else str(value)


def cost_text(change: Document) -> str:
    """'$0.543 -> $0.521 (-4.1 %)', or the one price where nothing changed."""
    old, new, percent = change["old"], change["new"], change["percent"]
    if not percent:
        return format_usd(new)
    return f"{format_usd(old)} -> {format_usd(new)} ({percent:+.1f} %)"
