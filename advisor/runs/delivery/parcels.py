"""A report, and what changed since the last one, as parcels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.errors import one_line
from advisor.render.difference.text import difference_text, headline
from advisor.render.sizing.formats import ReportFormat
from advisor.runs.delivery.parcel import Enclosure, Parcel
from advisor.units import format_usd

REPORT, DIFFERENCE = "report", "report-diff"
# Of a title in the subject of a mail, or the first line of a message.
_MOST_TITLE = 100


def report_parcel(document: Mapping[str, Any], file: Enclosure) -> Parcel:
    """`advisor.report/1` with the file that was made of it."""
    title = f"{_short(document['title'])} ({document['as_of']})"
    return Parcel(
        kind=REPORT,
        title=title,
        text="\n".join([title, "", *_answers(document), *_total(document["totals"])]) + "\n",
        day=document["as_of"],
        document=document,
        files=(file,),
    )


def enclosure_named(name: str, kind: ReportFormat, content: bytes) -> Enclosure:
    """A report's file; a name without the format's end gets it."""
    end = f".{kind.extension}"
    return Enclosure(name if name.endswith(end) else name + end, kind.media_type, content)


def difference_parcel(document: Mapping[str, Any], files: Sequence[Enclosure]) -> Parcel:
    """`advisor.report-diff/1` with files that go with it."""
    name = _short(document["new"]["title"] or "")
    what = headline(document)
    return Parcel(
        kind=DIFFERENCE,
        title=f"{name}: {what}" if name else what,
        text=difference_text(document),
        day=document["new"]["as_of"],
        document=document,
        files=tuple(files),
    )


def _short(title: str) -> str:
    text = one_line(title)
    return text if len(text) <= _MOST_TITLE else f"{text[: _MOST_TITLE - 2]}.."


def _answers(document: Mapping[str, Any]) -> list[str]:
    """A line a workload: what is picked, and what it costs."""
    return [one_line(f"{one['name']}: {_picked(one['answer'])}") for one in document["workloads"]]


def _picked(answer: Mapping[str, Any]) -> str:
    spec = answer["spec"]
    if answer["status"] != "answered" or spec is None:
        return "nothing meets the target"
    count = "" if spec["count"] == 1 else f"{spec['count']} x "
    cost = f"{format_usd(spec['usd_per_hour'])} an hour"
    return f"{count}{spec['instance_type']} + {spec['disk']} in {spec['region']}, {cost}"


def _total(totals: Mapping[str, Any]) -> list[str]:
    if totals["usd_per_hour"] is None or totals["workloads"] < 2:
        return []
    monthly = format_usd(totals["usd_per_month"])
    hourly = format_usd(totals["usd_per_hour"])
    return ["", f"Together {hourly} an hour, {monthly} a month of {totals['hours_per_month']:g} h"]
