"""Sheets -> the bytes of an XLSX file, the same for the same document.

XlsxWriter dates every part of the archive 1980-01-01; the day in the properties is the report's.
Each formula is written with its value, so that a viewer that computes nothing shows it too. Texts
are written as texts, whatever they look like.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any

from advisor.csv_cells import harmless
from advisor.render.content import Column, Look
from advisor.render.i18n.catalogue import Texts, workbook_texts
from advisor.render.sizing.sheets import HOURS_NAME, USD_HOUR, USD_MONTH, Record, sheets_of
from advisor.render.workbook_sheet import Sheet

_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}
# Excel's number format of a column; texts have none.
_FORMATS = {
    Look.WHOLE: "#,##0",
    Look.NUMBER: "#,##0.00",
    Look.RATE: "#,##0.0",
    Look.USD: "#,##0.0000",
    Look.USD_MONTH: "#,##0.00",
    Look.PERCENT: "0.0",
    Look.DAY: "yyyy-mm-dd",
}
# Excel's own limit of a cell.
_MOST_CHARACTERS = 32767
_NARROWEST, _WIDEST = 12, 60
# What XML has no place for; XlsxWriter escapes the control characters that it has.
_UNFIT = re.compile("[\ud800-\udfff\ufffe\uffff]")
_HEADING = re.compile(r"\{([^}]+)\}")
_HEAD_ROW, _HOURS_ROW = 4, 2

Place = tuple[int, int]  # row and column, counted from 0


def report_workbook(document: Record, language: str = "en") -> bytes:
    """The workbook: totals first, then money, the data of every chart, and facts. Headings and
    notes are in the language; what stands in cells is the document's own: codes that other programs
    filter by, and names."""
    first, *others = sheets_of(document)
    with _book(document["title"], document["as_of"], language) as (writer, buffer):
        writer.write_totals(first, document)
        writer.write_all(others, document["as_of"])
    return buffer.getvalue()


@contextmanager
def _book(title: str, day: str, language: str) -> Iterator[tuple[_Writer, io.BytesIO]]:
    import xlsxwriter  # the extra `report`

    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(buffer, dict(_OPTIONS))
    created = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    book.set_properties({"title": _fit(title)[:200], "created": created.replace(tzinfo=None)})
    yield _Writer(book, workbook_texts(language)), buffer
    book.close()


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
        self._input = book.add_format({"num_format": "#,##0.##", "bg_color": "#FFF6D6", "border": 1})
        shown = {look: {"num_format": _FORMATS[look]} if look in _FORMATS else {} for look in Look}
        self._looks = {look: book.add_format(form) for look, form in shown.items()}
        bold = {"bold": True, "top": 1}
        self._sums = {look: book.add_format(form | bold) for look, form in shown.items()}

    def _named(self, text: str) -> str:
        return self._texts.known(text, text)

    def write_totals(self, sheet: Sheet, document: Record) -> None:
        """The totals: the hours that every month follows, the picks, and their sums."""
        page = self.write(sheet, document["title"], document["as_of"])
        self._cell(page, (_HOURS_ROW, 0), self._named(HOURS_NAME))
        page.write_number(_HOURS_ROW, 1, document["totals"]["hours_per_month"], self._input)
        self._book.define_name(HOURS_NAME, f"='{page.get_name()}'!$B${_HOURS_ROW + 1}")
        self._write_sums(page, sheet, document["totals"])

    def write_all(self, sheets: Sequence[Sheet], day: str) -> None:
        """Each sheet under its own name."""
        for sheet in sheets:
            self.write(sheet, self._named(sheet.name), day)

    def write(self, sheet: Sheet, title: str, day: str) -> Any:
        """A sheet with its title above, headings that stay when it is scrolled, and a filter."""
        page = self._book.add_worksheet(self._named(sheet.name))
        self._cell(page, (0, 0), title, self._title)
        self._cell(page, (1, 0), f"{day}  {self._named(sheet.note)}")
        for at, column in enumerate(sheet.columns):
            page.write_string(_HEAD_ROW, at, self._named(column.heading), self._head)
            page.set_column(at, at, _width(column, sheet.records))
            for number, record in enumerate(sheet.records, start=_HEAD_ROW + 1):
                self._value(page, (number, at), column, record, sheet.columns)
        page.freeze_panes(_HEAD_ROW + 1, 1)
        page.autofilter(_HEAD_ROW, 0, _HEAD_ROW + len(sheet.records), len(sheet.columns) - 1)
        page.set_landscape()
        page.fit_to_pages(1, 0)
        page.repeat_rows(_HEAD_ROW)
        return page

    def _value(self, page: Any, at: Place, column: Column, record: Record, columns: Sequence[Column]) -> None:
        value, look = column.value(record), self._looks[column.look]
        if value is None:
            return
        if column.formula:
            page.write_formula(*at, _formula(column.formula, at[0], columns), look, value)
        elif column.look is Look.DAY:
            page.write_datetime(*at, datetime.fromisoformat(value), look)
        elif isinstance(value, bool):
            page.write_boolean(*at, value)
        elif isinstance(value, int | float):
            page.write_number(*at, value, look)
        else:
            self._cell(page, at, str(value))

    def _cell(self, page: Any, at: Place, text: str, look: Any = None) -> None:
        """A text that stays one."""
        fit = _fit(text)
        page.write_string(*at, fit, look or (self._text if harmless(fit) == fit else self._quoted))

    def _write_sums(self, page: Any, sheet: Sheet, totals: Record) -> None:
        """Sums below the picks, then by market and by region."""
        first, last = _HEAD_ROW + 1, _HEAD_ROW + len(sheet.records)
        values = {
            "Instances": totals["instances"],
            USD_HOUR: totals["usd_per_hour"],
            USD_MONTH: totals["usd_per_month"],
        }
        line = last + 1
        page.write_string(line, 0, self._named("Total"), self._sums[Look.TEXT])
        spans = {}
        for at, column in enumerate(sheet.columns):
            spans[column.heading] = _span(first, last, at)
            if column.sums:
                formula, value = f"=SUM({spans[column.heading]})", values[column.heading] or 0
                page.write_formula(line, at, formula, self._sums[column.look], value)
        for heading in ("Market", "Region"):
            by = totals[f"usd_per_hour_by_{heading.lower()}"]
            line = self._write_groups(page, line + 2, heading, by, spans, totals["hours_per_month"])

    def _write_groups(
        self,
        page: Any,
        line: int,
        heading: str,
        usd_by: Mapping[str, float],
        spans: Mapping[str, str],
        hours: float,
    ) -> int:
        """USD an hour and a month of each market, or region, found by SUMIF; the last line."""
        for number, name in enumerate((heading, USD_HOUR, USD_MONTH)):
            page.write_string(line, number, self._named(name), self._head)
        for key, usd in usd_by.items():
            line += 1
            self._cell(page, (line, 0), key)
            for number, name, look, value in (
                (1, USD_HOUR, Look.USD, usd),
                (2, USD_MONTH, Look.USD_MONTH, usd * hours),
            ):
                formula = f"=SUMIF({spans[heading]},$A${line + 1},{spans[name]})"
                page.write_formula(line, number, formula, self._looks[look], value)
        return line


def _formula(template: str, row: int, columns: Sequence[Column]) -> str:
    """`{heading}` -> that column's cell in this row."""
    at = {column.heading: number for number, column in enumerate(columns)}
    return "=" + _HEADING.sub(lambda match: f"${_letters(at[match[1]])}{row + 1}", template)


def _span(first: int, last: int, column: int) -> str:
    """The cells of a column's rows (counted from 0); of a sheet without rows its heading's line."""
    letters = _letters(column)
    return f"${letters}${first + 1}:${letters}${max(first, last) + 1}"


def _letters(column: int) -> str:
    """0 -> A, 25 -> Z, 26 -> AA."""
    before, last = divmod(column, 26)
    return (_letters(before - 1) if before else "") + chr(ord("A") + last)


def _fit(text: str) -> str:
    """What a cell can hold."""
    fit = _UNFIT.sub("?", text)
    return fit if len(fit) <= _MOST_CHARACTERS else fit[: _MOST_CHARACTERS - 2] + " \u2026"


def _width(column: Column, records: Sequence[Record]) -> int:
    """Characters: enough for numbers and days, and for most texts."""
    if column.look is not Look.TEXT:
        return _NARROWEST
    longest = max((len(str(column.value(record) or "")) for record in records), default=0)
    return min(max(longest + 2, _NARROWEST), _WIDEST)
