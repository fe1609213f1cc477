"""Writes the changes between two answers in words, as plain text or Markdown, a paragraph per workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.domain import ESTIMATED, OBSERVED
from advisor.errors import one_line
from advisor.messages import format_counted, format_rate, format_usd, option_name, short_usd, sum_of_shown
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.render.blocks import Items, Page, Paragraph
from advisor.render.diff import differ
from advisor.render.facts import spec_name
from advisor.render.i18n.catalogue import report_texts
from advisor.render.markdown import page_markdown
from advisor.render.sentences import disk_name
from advisor.render.text import usd_or_dash

Document = Mapping[str, Any]

# Programs read all of some hundred price changes; people get the largest.
_MOST = 5
_AN_HOUR, _A_MONTH, _THE_RUN = " an hour", " a month", " for the run"
# Kinds of prices that come from no price list.
_SEEN = (OBSERVED, ESTIMATED)


def difference_text(document: Document) -> str:
    """Return the changes for a terminal or the body of a mail."""
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
    """Return the changes for a pull request or a chat."""
    return page_markdown(_page(document))


def _page(document: Document) -> Page:
    notes = [one_line(text) for text in _notes(document)]
    blocks: list[Items | Paragraph] = [Items(notes)] if notes else []
    for workload in document["workloads"]:
        if workload["status"] in ("added", "removed"):
            verb = "is new" if workload["status"] == "added" else "is no longer asked for"
            spec, usd, run = (workload[name] for name in ("spec", "usd_per_hour", "run_usd"))
            months = filter(None, (workload["month_usd"][day] for day in ("old", "new")))
            paid = f"{short_usd(run)} for the run" if run else f"{usd_or_dash(usd)} an hour"
            costs = [paid, *(f"{short_usd(month)} a month" for month in months)]
            what = f"{with_disk(spec)}, {', '.join(costs)}" if spec else "nothing fits"
            blocks.append(Paragraph(one_line(f"{workload['name']} {verb} ({what})"), "answer"))
        elif workload["status"] == "changed":
            called, was = workload["name"], workload["old_name"]
            called += f" (it was {was})" if was != called else ""
            title = one_line(f"{called}: {_pick_text(workload)}")
            changes = [one_line(text) for text in _changes(workload)]
            blocks += [Paragraph(title, "answer"), *([Items(changes)] if changes else [])]
    return Page("", headline(document), blocks)


def headline(document: Document) -> str:
    """'What changed from 2026-10-21 to 2026-11-21: 3 of 5 workloads (1 another pick, 2 new)'; two documents
    of the same day are named by their files."""
    old, new = document["old"], document["new"]
    one_day = old["as_of"] == new["as_of"] and old.get("file") and new.get("file")
    ends = [one_line(each["file"]) if one_day else each["as_of"] for each in (old, new)]
    days = f"from {ends[0]} to {ends[1]}"
    if not document["changed"]:
        return f"Nothing changed {days}"
    rows = document["workloads"]
    how = Counter(
        "another pick" if row.get("pick", {}).get("changed") else _STATUS[row["status"]] for row in rows
    )
    kinds = [f"{how[kind]} {kind}" for kind in ("another pick", "new", "gone", _KEPT) if how[kind]]
    what = f"{len(rows) - how['']} of {format_counted(len(rows), 'workload')}"
    return f"What changed {days}: {what} ({', '.join(kinds)})"


# What became of a workload, by its status.
_KEPT = "with the same pick"
_STATUS = {"added": "new", "removed": "gone", "changed": _KEPT, "same": ""}


# Why only one document's monthly sum includes a workload: the reason that the other has, and its side.
_WHY = {
    ("not_asked", "old"): "new",
    ("not_asked", "new"): "no longer asked for",
    ("not_planned", "old"): "no runs a month before",
    ("not_planned", "new"): "no runs a month now",
    ("nothing_fits", "old"): "nothing fitted before",
    ("nothing_fits", "new"): "nothing fits now",
}
# What answers are based on: its name for people, and the fact that identifies its version.
_STANDS_ON = {
    "catalog": ("the catalogue", "as_of"),
    "performance_model": ("the performance model", "id"),
    "language_predictors": ("the predictors of language models", "ids"),
    "measurements": ("the measurements", "rows"),
    "advisor": ("the advisor", "version"),
}


def _notes(document: Document) -> Iterator[str]:
    totals = document["totals"]
    everything, once = totals["all_month_usd"], totals["run_usd"]
    if max(document[day]["workloads"] for day in ("old", "new")) > 1:
        if None not in everything.values():
            yield f"In all {_whole_text(document)}"
        if once and once["percent"]:
            yield f"One run of each job in both: {cost_text(once, '')}"
    asked = any(row.get("request", True) for row in document["workloads"])
    for name, change in document["stands_on"].items():
        # Different questions select different rows of the same measurements.
        drawn = asked and name == "measurements"
        digests = {change[day].get("bundled_sha256") for day in ("old", "new")}
        if not change["changed"] or (drawn and len(digests) == 1):
            continue
        title, field = _STANDS_ON[name]
        old, new = change["old"][field], change["new"][field]
        trained = change["new"].get("trained_on")
        more = f" (fitted on {trained})" if trained != change["old"].get("trained_on") else ""
        same = f"{title} changed (still {old})"
        yield same if old == new else f"{title} changed: {old} -> {new}{more}"


def _whole_text(document: Document) -> str:
    """'$1,200 -> $2,002 a month (+$802): Chat (new) +$397, Weekly +$275, 2 others +$130': monthly sums, and
    which workloads their difference comes from, the largest first."""
    totals = document["totals"]["all_month_usd"]
    lacks = document["totals"]["all_month_lacks"]
    why = {row["name"]: _WHY[row["why"], day] for day, rows in lacks.items() for row in rows}
    rows = document["workloads"]
    months = {day: [row["month_usd"][day] or 0.0 for row in rows] for day in ("old", "new")}
    changes = [
        (sum_of_shown([new]) - sum_of_shown([old]), row["name"])
        for row, old, new in zip(rows, months["old"], months["new"], strict=True)
        if differ(old, new)
    ]
    changes.sort(key=lambda change: -abs(change[0]))
    texts = [
        f"{name}{f' ({why[name]})' if name in why else ''} {_signed(usd)}" for usd, name in changes[:_MOST]
    ]
    if rest := changes[_MOST:]:
        texts.append(f"{format_counted(len(rest), 'other')} {_signed(sum(usd for usd, _ in rest))}")
    sums = [sum_of_shown(usd) for usd in months.values()]
    ends = " -> ".join(dict.fromkeys(map(short_usd, sums))) + _A_MONTH
    unplanned = [
        row["name"] for row in rows if row.get("run_usd") and not any(map(row["month_usd"].get, months))
    ]
    ends += f", without {_listed(unplanned)} (no runs_per_month)" if unplanned else ""
    if not texts:
        return ends
    # Sums over different workloads get no percentage.
    share = "" if why else f", {totals['percent']:+.1f} %"
    return f"{ends} ({_signed(sums[1] - sums[0])}{share}): {', '.join(texts)}"


def _signed(usd: float) -> str:
    return f"{'-' if usd < 0 else '+'}{short_usd(abs(usd))}"


def _pick_text(workload: Document) -> str:
    pick = workload["pick"]
    old, new = pick["old"], pick["new"]
    if not pick["changed"]:
        kept = "nothing fits, as before" if new is None else with_disk(new)
        moved = f", {_paid(workload)}" if workload["cost"] and workload["cost"]["percent"] else ""
        return f"the pick stays ({kept}){moved}"
    why = f" because {' and '.join(clauses)}" if (clauses := because(workload)) else ""
    if new is None:
        return f"nothing meets the target any more (it was {with_disk(old)}){why}"
    if old is None:
        return f"{with_disk(new)} meets the target now, and nothing did before{why}"
    names = [with_disk(spec) for spec in (old, new)]
    if names[0] == names[1]:
        names = [f"{names[0]} in {spec['region']} ({_market(spec)})" for spec in (old, new)]
    return f"the pick changed from {names[0]} to {names[1]} ({_paid(workload)}){why}"


def _paid(workload: Document) -> str:
    """'$0.543 -> $0.521 an hour (-4.1 %), $396.39 -> $380.33 a month'; an unlisted price has its date."""
    cost, new, month = workload["cost"], workload["pick"]["new"], workload["month_usd"]
    run, days = workload["run_usd"] or {}, ("old", "new")
    paid = cost_text(cost, _AN_HOUR)
    if run and None not in (run["old"], run["new"]):
        paid = cost_text(run, _THE_RUN)
    elif None not in (month["old"], month["new"]):  # also of planned runs, and of what a commitment owes
        paid += f", {' -> '.join(dict.fromkeys(short_usd(month[day]) for day in days))}{_A_MONTH}"
    else:
        ends = [(run[day], _THE_RUN) if run[day] else (month[day], _A_MONTH) for day in days]
        paid += f", {' -> '.join(short_usd(usd) + per for usd, per in ends)}"
    kind = report_texts("en").known(f"price.{new['price_kind']}", new["price_kind"])
    return f"{paid}, at the {kind} of {new['price_as_of']}" if new["price_kind"] in _SEEN else paid


def _changes(workload: Document) -> Iterator[str]:
    """Yield the other changes. If the question changed, every list did too; only the JSON has them then."""
    if not workload["pick"]["changed"] and workload["request"]:
        yield f"the question: {_asked(workload)}"
    for what in ("runs", "hours"):
        if often := workload[f"{what}_per_month"]:
            month = [workload["month_usd"][day] for day in ("old", "new")]
            usd = " -> ".join(short_usd(each) for each in month if each is not None)
            costs = f" ({usd} a month)" if usd else ""
            yield f"{what} a month: {_value(often['old'])} -> {_value(often['new'])}{costs}"
    yield from _first([_price_text(row) for row in workload["prices"]], "price")
    if workload["request"]:
        return
    unit = workload.get("unit") or "samples/s"
    # Predicted rates are only comparable at the same batch size.
    alike = [row for row in workload["predictions"] if row["new_batch_size"] == row["old_batch_size"]]
    yield from _first([_rate_text(row, unit) for row in alike], "prediction")
    ranked = workload["alternatives"]
    for title, key in (("new on the list", "came"), ("gone from the list", "went")):
        if ranked[key]:
            yield f"{title}: {_listed([with_disk(row) for row in ranked[key]])}"


def _first(texts: Sequence[str], noun: str) -> list[str]:
    more = len(texts) - _MOST
    return [*texts[:_MOST], *([f"and {format_counted(more, f'other {noun}')} changed"] if more > 0 else [])]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"


def _market(row: Document) -> str:
    return report_texts("en").known(f"market.{row['market']}", row["market"])


def _price_text(row: Document) -> str:
    percent = row["percent"] or 0.0
    how, size = "cheaper" if percent < 0 else "dearer", abs(percent)
    share = f"{size:.0f}" if size >= 10 else f"{size:.2g}"
    return (
        f"{spec_name(row)} ({row['region']}, {_market(row)}) became {share} % {how}: "
        f"{format_usd(row['old'])} -> {format_usd(row['new'])} an hour"
    )


def _rate_text(row: Document, unit: str) -> str:
    now = _interval(row["median"]["new"], row["new_interval"])
    was = _interval(row["median"]["old"], row["old_interval"])
    return f"{with_disk(row)} is predicted {now} {unit}, was {was}"


def _interval(median: float, bounds: Document) -> str:
    """Return a median with its bounds: '945 (721 to 1,110)'."""
    lower, upper = format_rate(bounds["lower"]), format_rate(bounds["upper"])
    return f"{format_rate(median)} ({lower} to {upper})"


def because(workload: Document) -> list[str]:
    """Return the clauses after "because": the changed question, or else what became of the picks. The list is
    empty if the documents hold no reason."""
    clauses = [clause for reason in workload["pick"]["reasons"] for clause in _clauses(reason, workload)]
    return list(dict.fromkeys(clauses))


def _clauses(reason: Document, workload: Document) -> Iterator[str]:
    if reason["kind"] == "request":
        yield f"you ask for {_asked(workload)}"
        return
    name = spec_name(reason)
    if "usd_per_hour_then" in reason:
        before, now = reason["usd_per_hour_then"], reason["usd_per_hour"]
        yield f"{name} became {abs(100 * (now / before - 1)):.2g} % {'cheaper' if now < before else 'dearer'}"
    if reason.get("now") == "rejected":
        why = report_texts("en").known(f"reason.{reason['reason']}", reason["reason"])
        yield f"{name} is rejected now ({why}: {reason['detail']})"


def _asked(workload: Document) -> str:
    rows = workload["request"]
    return ", ".join(
        f"{_option(row['field'])} {_value(row['new'])} (was {_value(row['old'])})" for row in rows
    )


def with_disk(spec: Document) -> str:
    """Return a spec's name with its disk: 'g4dn.xlarge + gp3:158GiB'."""
    return f"{spec_name(spec)} + {disk_name(spec['disk'], report_texts('en'))}"


def _option(field: str) -> str:
    """Return the option that sets a field of a request: '--max-price'."""
    known = (kind.declared.get(field) for kind in (NetworkQuestion, ServingQuestion, TuningQuestion))
    return next((each.option for each in known if each), option_name(field))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("name") or ", ".join(f"{name} {_value(each)}" for name, each in value.items()))
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or "not set"
    return "not set" if value is None else f"{value:,.12g}" if isinstance(value, float) else str(value)


def cost_text(change: Document, of: str) -> str:
    """'$0.543 -> $0.521 an hour (-4.1 %)', or one price if nothing changed; monthly costs have cents."""
    write, percent = format_usd if of == _AN_HOUR else short_usd, change["percent"]
    if not percent:
        return f"{write(change['new'])}{of}"
    return f"{write(change['old'])} -> {write(change['new'])}{of} ({percent:+.1f} %)"
