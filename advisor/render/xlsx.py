"""A report as XLSX: plain tables of the document's values, the same bytes for the same document.

`sheets.json` lists the sheets with the path of each column; its headings are what other programs
read by, and stay. XlsxWriter dates every part of the archive 1980-01-01; the day in the properties
is the report's. Texts are written as texts, whatever they look like.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from advisor.csv_cells import harmless
from advisor.render.document import is_language
from advisor.render.facts import usd_per_million_samples
from advisor.render.i18n.catalogue import Texts, workbook_texts
from advisor.render.tables import FRONT, SERVING, TUNING, columns_of_task, flat_rows, ranked_rows, value_at

Record = Mapping[str, Any]
_SHEETS = Path(__file__).with_name("sheets.json")
_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}
# Excel's number format by what a heading says, the first that fits; then of whole numbers.
_FORMATS = (
    ("USD/month", "#,##0.00"),
    ("USD", "#,##0.0000"),
    ("samples/s", "#,##0.0"),
    ("(%)", "0.0"),
    ("", "#,##0.00"),
)
_WHOLE, _DAY = "#,##0", "yyyy-mm-dd"
_DAYS = ("Price of", "Of", "Measured on")
# What XML has no place for; XlsxWriter escapes the control characters that it has.
_UNFIT = re.compile("[\ud800-\udfff\ufffe\uffff]")
# Excel's own limit of a cell.
_MOST_CHARACTERS = 32767
_NARROWEST, _WIDEST = 12, 60
_HOURS_ROW, _HEAD_ROW = 2, 4


class Sheet(NamedTuple):
    """A table under its headings: `note` says above it what it holds."""

    name: str
    note: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]


def report_workbook(document: Record, language: str = "en") -> bytes:
    """The workbook: totals first, then money, the data of every chart, and facts. Headings and
    notes are in the language; what stands in cells is the document's own: codes that other programs
    filter by, and names."""
    import xlsxwriter  # the extra `report`

    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(buffer, dict(_OPTIONS))
    created = datetime.combine(date.fromisoformat(document["as_of"]), datetime.min.time(), UTC)
    book.set_properties({"title": _fit(document["title"])[:200], "created": created.replace(tzinfo=None)})
    writer, (first, *others) = _Writer(book, workbook_texts(language)), sheets_of(document)
    page = writer.write(first, document["title"], document["as_of"])
    writer.write_totals(page, first, document["totals"])
    for sheet in others:
        writer.write(sheet, writer.named(sheet.name), document["as_of"])
    book.close()
    return buffer.getvalue()


def sheets_of(document: Record) -> list[Sheet]:
    """Every sheet, in the order of a reader's questions; the first one has the totals."""
    sections = document["workloads"]
    hours = document["totals"]["hours_per_month"]
    totals, *layouts = json.loads(_SHEETS.read_text(encoding="utf-8"))
    picks = [_pick(section, hours) for section in sections]
    sheets = [_sheet(totals["name"], totals["note"], {"Workload": "name", **totals["columns"]}, picks)]
    for layout in layouts:
        rows = [row for section in sections for row in _records(section, layout["rows"])]
        columns = {"Workload": "workload", **layout["columns"]}
        sheets.append(_sheet(layout["name"], layout["note"], columns, rows))
    facts = [{"what": name, "value": value} for name, value in _flat(document["reproducibility"])]
    columns = {"What": "what", "Value": "value"}
    last = _sheet("Reproducibility", "Versions, digests, and the command.", columns, facts)
    return [*sheets, *_language_sheets(sections), last]


def _sheet(name: str, note: str, columns: Mapping[str, str], records: Sequence[Record]) -> Sheet:
    rows = [[value_at(record, path) for path in columns.values()] for record in records]
    return Sheet(name, note, list(columns), rows)


def _pick(section: Record, hours: float) -> Record:
    """A row of the totals: where nothing meets the target no spec is bought, and none is added up."""
    answered = section["answer"]["status"] == "answered"
    return {**section, "spec": {**section["answer"]["spec"], "hours": hours} if answered else None}


def _records(section: Record, rows: str) -> Iterator[Record]:
    """What a sheet has of a section: the records at a path, or those that several places make."""
    made = _MADE.get(rows)
    records = made(section) if made else value_at(section, rows) or ()
    return ({"workload": section["name"], **record} for record in records)


def _stages(section: Record) -> list[Record]:
    stages = value_at(section, "bottleneck.stages") or ()
    return [{**stage, "used_percent": 100 * stage["utilization"]} for stage in stages]


def _measurements(section: Record) -> list[Record]:
    """Each measurement, and which curves show it."""
    drawn = {
        f"over_{name}": set(value_at(section, f"curves.{name}.measured") or ())
        for name in ("vcpus", "memory", "disk")
    }
    return [
        {**row, **{name: row["trial_id"] in ids for name, ids in drawn.items()}}
        for row in section["measured"]
    ]


def _batches(section: Record) -> list[Record]:
    card = section["gpu_memory"] or {"batches": ()}
    return [
        {**card, **row, "used_percent": 100 * row["needed_mib"] / card["has_mib"]} for row in card["batches"]
    ]


def _ranked(section: Record) -> list[Record]:
    answer = section["recommendation"]
    ranked = [spec for spec in (answer["recommendation"], *answer["alternatives"]) if spec]
    return [
        {**spec, "place": place, "usd_per_million_samples": usd_per_million_samples(spec)}
        for place, spec in enumerate(ranked, start=1)
    ]


def _notes(section: Record) -> list[Record]:
    answer = section["recommendation"]
    kinds = {
        "warning": answer["warnings"],
        "assumption": answer["assumptions"],
        "relax": [_relaxed(relaxation) for relaxation in answer["relax"]],
        "command": [section["command"]] if section["command"] else [],
    }
    return [{"kind": kind, "text": text} for kind, texts in kinds.items() for text in texts]


def _relaxed(relaxation: Record) -> str:
    """'--max-price 1.014: g5.xlarge in us-east-1': what to ask instead, and what that gives."""
    changes = [
        f"{change['option']} {change['to']}" if change["to"] else f"no {change['option']}"
        for change in relaxation["changes"]
    ]
    gives = relaxation["gives"]
    return f"{' '.join(changes)}: {gives['instance_type']} in {gives['region']}"


_MADE: Mapping[str, Callable[[Record], Sequence[Record]]] = {
    "stages": _stages,
    "measurements": _measurements,
    "batches": _batches,
    "ranked": _ranked,
    "notes": _notes,
}


def _language_sheets(sections: Sequence[Record]) -> Iterator[Sheet]:
    """What sections tell of language models alone: their specs, by task, and latency against
    throughput. A sheet without rows is left out."""
    answers = [(section["name"], section["recommendation"]) for section in sections]
    answers = [(name, answer) for name, answer in answers if is_language(answer)]
    specs = [
        (columns_of_task(answer), {"workload": name, **row})
        for name, answer in answers
        for row in ranked_rows(answer)
    ]
    points = [
        {"workload": name, **row}
        for name, answer in answers
        for row in flat_rows(value_at(answer, "serving.front") or (), FRONT)
    ]
    for name, note, columns, rows in (
        (
            "Serving",
            "Each spec that serves, best first.",
            SERVING,
            [row for of, row in specs if of is SERVING],
        ),
        ("Latency", "Latency against throughput.", FRONT, points),
        ("Tuning", "Each spec that tunes, best first.", TUNING, [row for of, row in specs if of is TUNING]),
    ):
        if rows:
            names = ("workload", *columns)
            yield Sheet(name, note, names, [[row[key] for key in names] for row in rows])


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value, start=1):
            yield from _flat(part, f"{name}.{number}")
    else:
        yield name, value


class _Writer:
    """A workbook in the making, with the formats that its sheets share."""

    def __init__(self, book: Any, texts: Texts) -> None:
        self._book, self._texts = book, texts
        self._text = book.add_format({})
        # What an editor would take for a formula stays text when the cell is edited, too.
        self._quoted = book.add_format({"quote_prefix": True})
        self._title = book.add_format({"bold": True, "font_size": 14})
        self._head = book.add_format(
            {"bold": True, "bg_color": "#E8EDF3", "text_wrap": True, "valign": "top", "bottom": 1}
        )
        forms = {form for _, form in _FORMATS} | {_WHOLE, _DAY}
        self._looks = {form: book.add_format({"num_format": form}) for form in sorted(forms)}

    def named(self, text: str) -> str:
        """A heading in the workbook's language."""
        return self._texts.known(text, text)

    def write(self, sheet: Sheet, title: str, day: str) -> Any:
        """A sheet with its title above, headings that stay when it is scrolled, and a filter."""
        page = self._book.add_worksheet(self.named(sheet.name))
        self._cell(page, 0, 0, title, self._title)
        self._cell(page, 1, 0, f"{day}  {self.named(sheet.note)}")
        for column, heading in enumerate(sheet.headings):
            page.write_string(_HEAD_ROW, column, self.named(heading), self._head)
            values = [row[column] for row in sheet.rows]
            page.set_column(column, column, _width(values))
            for line, value in enumerate(values, start=_HEAD_ROW + 1):
                self._value(page, line, column, value, heading)
        page.freeze_panes(_HEAD_ROW + 1, 1)
        page.autofilter(_HEAD_ROW, 0, _HEAD_ROW + len(sheet.rows), len(sheet.headings) - 1)
        page.set_landscape()
        page.fit_to_pages(1, 0)
        page.repeat_rows(_HEAD_ROW)
        return page

    def write_totals(self, page: Any, sheet: Sheet, totals: Record) -> None:
        """The hours of a month above the picks; their sums below, then by market and by region."""
        hours, line = totals["hours_per_month"], _HEAD_ROW + len(sheet.rows) + 1
        self._cell(page, _HOURS_ROW, 0, self.named("hours_per_month"))
        self._value(page, _HOURS_ROW, 1, hours, "")
        self._cell(page, line, 0, self.named("Total"), self._head)
        for heading, value in (
            ("Instances", totals["instances"]),
            ("USD/hour", totals["usd_per_hour"] or 0),
            ("USD/month", totals["usd_per_month"] or 0),
        ):
            self._value(page, line, sheet.headings.index(heading), value, heading)
        for group in ("Market", "Region"):
            line += 2
            for column, heading in enumerate((group, "USD/hour", "USD/month")):
                page.write_string(line, column, self.named(heading), self._head)
            for name, usd in totals[f"usd_per_hour_by_{group.lower()}"].items():
                line += 1
                self._cell(page, line, 0, name)
                self._value(page, line, 1, usd, "USD/hour")
                self._value(page, line, 2, usd * hours, "USD/month")

    def _value(self, page: Any, line: int, column: int, value: Any, heading: str) -> None:
        if value is None:
            return
        if isinstance(value, bool):
            page.write_boolean(line, column, value)
        elif isinstance(value, int | float):
            form = next(form for part, form in _FORMATS if part in heading)
            whole = isinstance(value, int) and form == _FORMATS[-1][1]
            page.write_number(line, column, value, self._looks[_WHOLE if whole else form])
        elif heading in _DAYS:
            page.write_datetime(line, column, datetime.fromisoformat(value), self._looks[_DAY])
        else:
            self._cell(page, line, column, str(value))

    def _cell(self, page: Any, line: int, column: int, text: str, look: Any = None) -> None:
        """A text that stays one."""
        fit = _fit(text)
        page.write_string(line, column, fit, look or (self._text if harmless(fit) == fit else self._quoted))


def _fit(text: str) -> str:
    """What a cell can hold."""
    fit = _UNFIT.sub("?", text)
    return fit if len(fit) <= _MOST_CHARACTERS else fit[: _MOST_CHARACTERS - 2] + " \u2026"


def _width(values: Sequence[Any]) -> int:
    """Characters: enough for numbers and days, and for most texts."""
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    return min(max(longest + 2, _NARROWEST), _WIDEST)
