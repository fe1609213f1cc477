"""A report as XLSX: plain tables of the document's values, the same bytes for the same document.

`sheets.json` lists the sheets with the path of each column; its headings are what other programs read by, and
stay. XlsxWriter dates every part of the archive 1980-01-01; the day in the properties is the report's. Texts
are written as texts, whatever they look like."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.files import harmless
from advisor.render.facts import (
    ANSWERED,
    decision_of,
    in_all_usd,
    month_usd,
    run_usd,
    usd_per_million_samples,
)
from advisor.render.i18n.catalogue import Texts, report_texts, workbook_texts
from advisor.render.sentences import LOCAL_ORDER, disk_name, relax_sentence, stage_name
from advisor.render.tables import FRONT, SERVING, TUNING, columns_of_task, flat_rows, ranked_rows, value_at
from advisor.render.views.totals import target_text, totals_sentences

if TYPE_CHECKING:
    import pandas as pd

Record = Mapping[str, Any]
_SHEETS = Path(__file__).with_name("sheets.json")
_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}
# Excel's number format by what a heading says, the first that fits.
_FORMATS = (
    ("USD/month", "#,##0.00"),
    ("USD/run", "#,##0.00"),
    ("USD", "#,##0.0000"),
    ("samples/s", "#,##0.0"),
    ("Sure", "0%"),
    ("(%)", "0.0"),
    ("", "#,##0.00"),
)
_DAY = "yyyy-mm-dd"
_STAGES = ("Bottleneck", "Stage", "Bottleneck then")
_DAYS = ("Price of", "Of", "Measured on")
# What XML has no place for; XlsxWriter escapes the control characters that it has.
_UNFIT = re.compile("[\ud800-\udfff\ufffe\uffff]")
# Excel's own limit of a cell.
_MOST_CHARACTERS = 32767
# Columns of sheets that language models alone have, by what their rows are.
_OF_TASK = {"serving": SERVING, "front": FRONT, "tuning": TUNING}
_NARROWEST, _WIDEST = 12, 60
_HEAD_ROW = 4
# So many columns hold the sentences above the totals, each in a line of so many points.
_SENTENCE_COLUMNS, _LINE_HEIGHT = 9, 15


class Sheet(NamedTuple):
    """A table under its headings: `note` says above it what it holds."""

    name: str
    note: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]


def report_workbook(document: Record, language: str = "en") -> bytes:
    """The workbook: totals first, then money, the data of every chart, and facts. Headings, notes and what
    binds are in the language; other cells are codes that programs filter by, and names."""
    import pandas as pd  # half a second, with XlsxWriter of the extra `report`

    buffer, texts, words = io.BytesIO(), workbook_texts(language), report_texts(language)
    created = datetime.combine(date.fromisoformat(document["as_of"]), datetime.min.time())
    sheets = sheets_of(document)
    with pd.ExcelWriter(
        buffer, engine="xlsxwriter", date_format=_DAY, engine_kwargs={"options": _OPTIONS}
    ) as writer:
        writer.book.set_properties({"title": _fit(document["title"])[:200], "created": created})
        for sheet in sheets:
            title = document["title"] if sheet is sheets[0] else texts.known(sheet.name, sheet.name)
            note = f"{document['as_of']}  {texts.known(sheet.note, sheet.note)}"
            _write(writer, sheet, (title, note), texts, words)
        _write_totals(writer, sheets[0], document, texts, words)
    return buffer.getvalue()


def _write(writer: pd.ExcelWriter, sheet: Sheet, head: Sequence[str], texts: Texts, words: Texts) -> None:
    """A table under two lines of a head, headings that stay when it is scrolled, and a filter."""
    import pandas as pd

    name, quoted = texts.known(sheet.name, sheet.name), writer.book.add_format({"quote_prefix": True})
    rows = [
        [_cell(value, heading, words) for value, heading in zip(row, sheet.headings, strict=True)]
        for row in sheet.rows
    ]
    headings = [texts.known(heading, heading) for heading in sheet.headings]
    pd.DataFrame(rows, columns=headings, dtype=object).to_excel(
        writer, sheet_name=name, startrow=_HEAD_ROW, index=False
    )
    page = writer.sheets[name]
    page.write_string(0, 0, _fit(head[0]), writer.book.add_format({"bold": True, "font_size": 14}))
    page.write_string(1, 0, head[1])
    for column, heading in enumerate(sheet.headings):
        values = [row[column] for row in rows]
        look = writer.book.add_format({"num_format": _form(heading, values)})
        # Enough for numbers and days, and for most texts.
        longest = max((len(value) for value in values if isinstance(value, str)), default=0)
        page.set_column(column, column, min(max(longest + 2, _NARROWEST), _WIDEST), look)
        for line, value in enumerate(values, start=_HEAD_ROW + 1):
            # What an editor would take for a formula stays text when the cell is edited, too.
            if isinstance(value, str) and harmless(value) != value:
                page.write_string(line, column, value, quoted)
    page.freeze_panes(_HEAD_ROW + 1, 1)
    page.autofilter(_HEAD_ROW, 0, _HEAD_ROW + len(rows), len(headings) - 1)
    page.set_landscape()
    page.fit_to_pages(1, 0)


def _write_totals(writer: pd.ExcelWriter, sheet: Sheet, document: Record, texts: Texts, words: Texts) -> None:
    """The sums below the picks, and above them what these come to and rest on, in words."""
    page, totals = writer.sheets[texts.known(sheet.name, sheet.name)], document["totals"]
    sentences = totals_sentences(document, words)
    wrapped = writer.book.add_format({"text_wrap": True, "valign": "top"})
    page.merge_range(2, 0, 2, _SENTENCE_COLUMNS, _fit("\n".join(sentences)), wrapped)
    page.set_row(2, _LINE_HEIGHT * (len(sentences) + 1))
    sums = {
        "Instances": totals["instances"],
        # An hour of what is kept and an hour of a run are no sum.
        "USD/hour": None if totals["run_usd"] else totals["usd_per_hour"],
        "USD/month": in_all_usd(totals),
        "USD/run": totals["run_usd"],
    }
    line = _HEAD_ROW + len(sheet.rows) + 1
    page.write_string(line, 0, texts("Total"))
    for heading, value in sums.items():
        page.write(line, sheet.headings.index(heading), value)


def sheets_of(document: Record) -> list[Sheet]:
    """Every sheet, in the order of a reader's questions; the first one has the totals. Sheets that language
    models alone have are left out where they are empty."""
    totals, *layouts = _layouts()
    sheets = [_sheet(totals, totals["columns"], _picks(document))]
    for layout in layouts:
        rows = [
            {"workload": section["name"], **record}
            for section in document["workloads"]
            for record in _records(section, layout["rows"])
        ]
        if layout["rows"] in _OF_TASK:
            names = ("workload", *_OF_TASK[layout["rows"]])
            sheets += [_sheet(layout, dict(zip(names, names, strict=True)), rows)] if rows else []
        else:
            sheets.append(_sheet(layout, {"Workload": "workload", **layout["columns"]}, rows))
    facts = [{"what": name, "value": value} for name, value in _flat(document["reproducibility"])]
    last = {"name": "Reproducibility", "note": "Versions, digests, and the command."}
    return [*sheets, _sheet(last, {"What": "what", "Value": "value"}, facts)]


def pick_rows(document: Record) -> list[dict[str, Any]]:
    """What the first sheet says of each workload, under the names that values have in the document."""
    paths = _layouts()[0]["columns"].values()
    return [{path.rpartition(".")[2]: value_at(pick, path) for path in paths} for pick in _picks(document)]


@cache
def _layouts() -> list[dict[str, Any]]:
    layouts: list[dict[str, Any]] = json.loads(_SHEETS.read_text(encoding="utf-8"))
    return layouts


def _picks(document: Record) -> list[Record]:
    """Every section with its pick: where nothing meets the target no spec is bought, and none is added up."""
    hours = document["totals"]["hours_per_month"]
    t = report_texts("en")
    rows = document["workloads"]
    return [{**row, "spec": _pick(row, hours), "target": target_text(row, t)} for row in rows]


def _pick(section: Record, hours: float) -> Record | None:
    """The recommended spec with its chance and the cost of a month of `hours`, or that of its run."""
    answer = section["recommendation"]
    spec, run = answer["recommendation"], run_usd(answer["recommendation"])
    if section["answer"]["status"] != ANSWERED:
        return None
    month = {"usd_per_month": month_usd(section)}
    ends = {"run_usd": run, "most_usd": spec["run"]["usd"]["upper"]} if run is not None else {"hours": hours}
    sure = {"probability": decision_of(answer).get("probability")}
    return {**section["answer"]["spec"], **sure, **month, **ends}


def _sheet(layout: Record, columns: Mapping[str, str], records: Sequence[Record]) -> Sheet:
    rows = [[value_at(record, path) for path in columns.values()] for record in records]
    return Sheet(layout["name"], layout["note"], list(columns), rows)


def _records(section: Record, rows: str) -> Iterable[Record]:
    """The records of a section for a sheet: those that several parts make, or those at a path."""
    answer = section["recommendation"]
    if rows == "stages":
        stages = value_at(section, "bottleneck.stages") or ()
        return [{**stage, "used_percent": 100 * stage["utilization"]} for stage in stages]
    if rows == "batches":
        card = section["gpu_memory"] or {"batches": ()}
        return [
            {**card, **row, "used_percent": 100 * row["needed_mib"] / card["has_mib"]}
            for row in card["batches"]
        ]
    if rows == "ranked":
        ranked = [spec for spec in (answer["recommendation"], *answer["alternatives"]) if spec]
        return [
            {**spec, "place": rank, "usd_per_million_samples": usd_per_million_samples(spec)}
            for rank, spec in enumerate(ranked, start=1)
        ]
    if rows == "front":
        return flat_rows(value_at(answer, "serving.front") or (), FRONT)
    if rows in _OF_TASK:
        return ranked_rows(answer) if columns_of_task(answer) is _OF_TASK[rows] else ()
    made = {"measurements": _measurements, "notes": _notes}.get(rows)
    return made(section) if made else value_at(section, rows) or ()


def _measurements(section: Record) -> list[Record]:
    drawn = {
        f"over_{name}": set(value_at(section, f"curves.{name}.measured") or ())
        for name in ("vcpus", "memory", "disk")
    }
    return [
        {**row, **{name: row["trial_id"] in ids for name, ids in drawn.items()}}
        for row in section["measured"]
    ]


def _notes(section: Record) -> list[Record]:
    """Warnings, assumptions, what to ask instead with what that gives, and the command."""
    answer, t = section["recommendation"], report_texts("en")
    kinds = {
        "warning": answer["warnings"],
        "assumption": answer["assumptions"],
        "relax": [relax_sentence(relaxation, answer["request"], t) for relaxation in answer["relax"]],
        "command": [section["command"]] if section["command"] else [],
    }
    return [{"kind": kind, "text": text} for kind, texts in kinds.items() for text in texts]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value, start=1):
            yield from _flat(part, f"{name}.{number}")
    else:
        yield name, value


def _cell(value: Any, heading: str, words: Texts) -> Any:
    """A value that a cell can hold: a day where the heading says so, words for a stage, texts that fit."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if heading in _STAGES:
        return stage_name(value, words)
    if value == LOCAL_ORDER:
        return disk_name(value, words)
    return date.fromisoformat(value) if heading in _DAYS else _fit(str(value))


def _form(heading: str, values: Sequence[Any]) -> str:
    """Excel's number format of a column."""
    form = next(form for part, form in _FORMATS if part in heading)
    is_whole = form == _FORMATS[-1][1] and not any(isinstance(value, float) for value in values)
    return "#,##0" if is_whole else form


def _fit(text: str) -> str:
    fit = _UNFIT.sub("?", text)
    return fit if len(fit) <= _MOST_CHARACTERS else fit[: _MOST_CHARACTERS - 2] + " \u2026"
