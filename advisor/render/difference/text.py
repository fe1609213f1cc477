"""What changed, in words: a paragraph a workload, as plain text or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from advisor.errors import one_line
from advisor.units import floor_rate, format_counted, format_rate, format_usd

Document = Mapping[str, Any]

# A list of some hundred prices is read by programs; people get the largest changes.
_MOST = 5


def difference_text(document: Document) -> str:
    """For a terminal and the body of a mail."""
    paragraphs = [[headline(document)], _totals_lines(document), *_blocks(document)]
    return "\n".join("\n".join(lines) + "\n" for lines in paragraphs if lines)


def difference_markdown(document: Document) -> str:
    """For a pull request or a chat; names are code, so that nothing in them is markup."""
    lines = [f"# {headline(document)}", ""]
    lines += [f"- {line}" for line in _totals_lines(document)]
    for first, *others in _blocks(document):
        lines += ["", f"**{_markdown(first)}**", ""]
        lines += [f"- {_markdown(line.strip())}" for line in others]
    return "\n".join(lines) + "\n"


def headline(document: Document) -> str:
    """'What changed from 2026-10-21 to 2026-11-21: 2 of 3 workloads, 1 pick'."""
    days = f"from {document['old']['as_of']} to {document['new']['as_of']}"
    if not document["changed"]:
        return f"Nothing changed {days}"
    rows = document["workloads"]
    changed = sum(one["status"] != "same" for one in rows)
    picks = sum(one["pick"]["changed"] for one in rows if "pick" in one)
    what = f"{changed} of {format_counted(len(rows), 'workload')}"
    return f"What changed {days}: {what}, {format_counted(picks, 'pick')}"


def _totals_lines(document: Document) -> list[str]:
    totals, stands_on = document["totals"], document["stands_on"]
    lines = []
    if totals["usd_per_hour"] and totals["compared"] > 1:
        hourly, monthly = totals["usd_per_hour"], totals["usd_per_month"]
        what = f"{totals['compared']} workloads that both have together"
        lines.append(f"{what}: {cost_words(hourly)} an hour, {cost_words(monthly)} a month")
    lines += [_ground_line(name, one) for name, one in stands_on.items() if one["changed"]]
    return lines


_GROUND = {
    "catalog": ("the catalogue", "as_of"),
    "performance_model": ("the performance model", "id"),
    "measurements": ("the measurements", "rows"),
    "advisor": ("the advisor", "version"),
}


def _ground_line(name: str, one: Document) -> str:
    title, field = _GROUND[name]
    old, new = one["old"][field], one["new"][field]
    if old == new:
        return f"{title} ({old}): other content than before"
    trained = one["new"].get("trained_on")
    more = f" (fitted on {trained})" if trained and trained != one["old"]["trained_on"] else ""
    return one_line(f"{title}: {old} -> {new}{more}")


def _blocks(document: Document) -> Iterator[list[str]]:
    """A workload's first line, then what changed in it; nothing of those that are the same."""
    for one in document["workloads"]:
        if one["status"] in ("added", "removed"):
            yield [_one_sided(one)]
        elif one["status"] == "changed":
            yield [f"{one_line(one['name'])}: {_pick_line(one)}", *_lines(one)]


def _one_sided(one: Document) -> str:
    verb = "came new" if one["status"] == "added" else "is no longer asked for"
    spec = one["spec"]
    bought = "nothing fits" if spec is None else spec_name(spec)
    cost = "" if spec is None else f", {format_usd(one['usd_per_hour'])} an hour"
    return f"{one_line(one['name'])} {verb} ({bought}{cost})"


def _pick_line(one: Document) -> str:
    pick, cost = one["pick"], one["cost"]
    if not pick["changed"]:
        kept = "nothing fits, as before" if pick["new"] is None else spec_name(pick["new"])
        moved = cost and cost["percent"]
        return f"the pick stays ({kept})" + (f", {cost_words(cost)} an hour" if moved else "")
    reasons = because(one)
    why = f" because {joined(reasons)}" if reasons else ""
    if pick["new"] is None:
        return f"nothing meets the target any more (it was {spec_name(pick['old'])}){why}"
    if pick["old"] is None:
        return f"{spec_name(pick['new'])} meets the target now, and nothing did before{why}"
    to = f"the pick changed from {spec_name(pick['old'])} to {spec_name(pick['new'])}"
    return f"{to} ({cost_words(cost)} an hour){why}"


def _lines(one: Document) -> list[str]:
    asked = [f"  asked: {row['field']} {row['old']!r} -> {row['new']!r}" for row in one["request"]]
    return [
        *(_indented(line) for line in asked),
        *_listed([_price_line(row) for row in one["prices"]], "price"),
        *_listed([_rate_line(row) for row in one["predictions"]], "prediction"),
        *_alternative_lines(one["alternatives"]),
        *_rejected_lines(one["rejected"]),
        *_measured_lines(one["measured"]),
    ]


def _indented(line: str) -> str:
    """One line with its indent."""
    return f"  {one_line(line)}"


def _listed(lines: Sequence[str], noun: str) -> list[str]:
    more = len(lines) - _MOST
    rest = [f"  and {format_counted(more, f'other {noun}')} changed"] if more > 0 else []
    return [*lines[:_MOST], *rest]


def _price_line(row: Document) -> str:
    percent = row["percent"] or 0.0
    how = "cheaper" if percent < 0 else "dearer"
    where = f"{row['region']}, {row['market']}"
    return _indented(
        f"{type_name(row)} ({where}) became {_digits(abs(percent))} % {how}: "
        f"{format_usd(row['old'])} -> {format_usd(row['new'])} an hour"
    )


def _rate_line(row: Document) -> str:
    old, new, median = row["old_interval"], row["new_interval"], row["median"]
    now = (
        f"{format_rate(median['new'])} ({format_rate(new['lower'])} to {format_rate(new['upper'])})"
    )
    was = (
        f"{format_rate(median['old'])} ({format_rate(old['lower'])} to {format_rate(old['upper'])})"
    )
    return _indented(f"{type_name(row)} + {row['disk']} is predicted {now} samples/s, was {was}")


def _interval(median: float, bounds: Document) -> str:
    """'945 (721 to 1,110)'."""
    lower, upper = format_rate(bounds["lower"]), format_rate(bounds["upper"])
    return f"{format_rate(median)} ({lower} to {upper})"


def _alternative_lines(one: Document) -> list[str]:
    lines = []
    if one["came"]:
        lines.append(f"new on the list: {_names(one['came'])}")
    if one["went"]:
        lines.append(f"gone from the list: {_names(one['went'])}")
    if one["moved"]:
        moves = [
            f"{type_name(row)} {row['old_place']} -> {row['new_place']}" for row in one["moved"]
        ]
        lines.append(f"places: {', '.join(moves[:_MOST])}{_more(moves)}")
    return [_indented(line) for line in lines]


def _rejected_lines(one: Document) -> list[str]:
    told = {
        "rejected now": [(row, row["reason"]) for row in one["came"]],
        "no longer rejected": [(row, row["reason"]) for row in one["went"]],
        "rejected for another reason": [
            (row, f"{row['old']} -> {row['new']}") for row in one["reason_changed"]
        ],
    }
    named = {
        title: [f"{row['instance_type']} ({why})" for row, why in rows]
        for title, rows in told.items()
    }
    return [
        _indented(f"{title}: {', '.join(names[:_MOST])}{_more(names)}")
        for title, names in named.items()
        if names
    ]


def _measured_lines(one: Document) -> list[str]:
    counts = {"new": one["came"], "gone": one["went"], "measured again": one["changed"]}
    told = [f"{len(rows)} {name}" for name, rows in counts.items() if rows]
    return [f"  measurements: {', '.join(told)}"] if told else []


def _names(rows: Sequence[Document]) -> str:
    names = [spec_name(row) for row in rows]
    return f"{', '.join(names[:_MOST])}{_more(names)}"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _MOST} more" if len(names) > _MOST else ""


def _digits(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def _markdown(line: str) -> str:
    """Signs that Markdown or HTML would take for theirs, escaped."""
    return "".join(f"\\{one}" if one in "\\`*_{}[]<>#|~!&" else one for one in line)


Reason = Mapping[str, Any]


def because(workload: Mapping[str, Any]) -> list[str]:
    """The clauses behind "because", the question first; empty where the documents do not tell."""
    found = [_KINDS[one["kind"]](one) for one in workload["pick"]["reasons"]]
    return [one for one in dict.fromkeys(found) if one]


def _because_asked(one: Reason) -> str:
    return f"the question is another one ({', '.join(one['fields'])})"


def _old_pick(one: Reason) -> str:
    name = type_name(one)
    if one["now"] == "rejected":
        return f"{name} is rejected now ({one['reason']}: {one['detail']})"
    if one["now"] == "absent":
        return f"{name} is neither ranked nor named as rejected now"
    if one["now"] == "another_disk":
        return f"{name} is told with the disk {one['disk_now']} now, not {one['disk']}"
    cost = f"{format_usd(one['usd_per_hour'])} an hour"
    if one["now"] == "alternative":
        return f"{spec_name(one)} is an alternative now ({cost})"
    return f"{spec_name(one)} ({cost}) does not meet the question any more"


def _new_pick(one: Reason) -> str:
    name = type_name(one)
    if one["then"] == "rejected":
        return f"{name} was rejected before ({one['reason']}: {one['detail']})"
    if one["then"] == "absent":
        return f"{name} was neither ranked nor named as rejected before"
    if one["then"] == "considered":
        return f"{spec_name(one)} did not meet the question before"
    return ""  # it was an alternative: what moved it stands beside


def _because_moved(one: Reason) -> str:
    words = []
    if "usd_per_hour" in one:
        before, now = one["usd_per_hour_then"], one["usd_per_hour"]
        how = "cheaper" if now < before else "dearer"
        words.append(f"became {abs(100 * (now / before - 1)):.2g} % {how}")
    if "lower" in one:
        before, now = floor_rate(one["lower_then"]), floor_rate(one["lower"])
        words.append(f"has a lower bound of {now:,g} samples/s now, {before:,g} before")
    return f"{type_name(one)} {' and '.join(words)}"


_KINDS: Mapping[str, Callable[[Reason], str]] = {
    "request": _because_asked,
    "old_pick": _old_pick,
    "new_pick": _new_pick,
    "moved": _because_moved,
}


def type_name(one: Mapping[str, Any]) -> str:
    """'2 x g4dn.xlarge'."""
    count = "" if one["count"] == 1 else f"{one['count']} x "
    return one_line(f"{count}{one['instance_type']}")


def spec_name(one: Mapping[str, Any]) -> str:
    """'g4dn.xlarge + gp3:158GiB'."""
    return one_line(f"{type_name(one)} + {one['disk']}")


def cost_words(one: Mapping[str, Any]) -> str:
    """'$0.543 -> $0.521 (-4.1 %)', or the one price where nothing changed."""
    old, new, percent = one["old"], one["new"], one["percent"]
    if not percent:
        return format_usd(new)
    return f"{format_usd(old)} -> {format_usd(new)} ({percent:+.1f} %)"


def joined(words: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
