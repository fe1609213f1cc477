"""Sheets -> the bytes of an XLSX file, the same for the same document.

XlsxWriter dates every part of the archive 1980-01-01; the day in the properties is the report's.
Each formula is written with its value, so that a viewer that computes nothing shows it too. Texts
are written as texts, whatever they look like.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from advisor.csv_cells import harmless
from advisor.render.i18n.catalogue import workbook_texts
from advisor.render.sizing.workbook.charts import (
    bottleneck_sheet,
    curve_sheets,
    gpu_memory_sheet,
    measured_sheet,
    price_rate_sheet,
)
from advisor.render.sizing.workbook.columns import Column, Look, Row, Sheet
from advisor.render.sizing.workbook.facts import (
    ages_sheet,
    alternatives_sheet,
    evidence_sheet,
    notes_sheet,
    rejected_sheet,
    reproducibility_sheet,
    sensitivity_sheet,
)
from advisor.render.sizing.workbook.money import (
    HOURS_NAME,
    USD_HOUR,
    USD_MONTH,
    break_even_sheet,
    costs_sheet,
    picks_sheet,
    regions_sheet,
)

_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}
# Excel's own limit of a cell.
_MOST_CHARACTERS = 32767
_NARROWEST, _WIDEST = 12, 60
# What XML has no place for; XlsxWriter escapes the control characters that it has.
_UNFIT = re.compile("[\ud800-\udfff\ufffe\uffff]")
_NAMED = re.compile(r"\{([^}]+)\}")
_HEAD_ROW, _HOURS_ROW = 4, 2
_HEADING = {"bold": True, "bg_color": "#E8EDF3", "text_wrap": True, "valign": "top", "bottom": 1}
_INPUT = {"num_format": "#,##0.##", "bg_color": "#FFF6D6", "border": 1}
_SUM = {"bold": True, "top": 1}

Place = tuple[int, int]  # row and column, counted from 0


def report_workbook(document: Row, language: str = "en") -> bytes:
    """The workbook: totals first, then money, the data of every chart, and facts."""
    import xlsxwriter  # the extra `report`

    words, buffer = _headings(language), io.BytesIO()
    book = xlsxwriter.Workbook(buffer, dict(_OPTIONS))
    created = datetime.combine(date.fromisoformat(document["as_of"]), datetime.min.time(), UTC)
    book.set_properties(
        {"title": _fit(document["title"])[:200], "created": created.replace(tzinfo=None)}
    )
    writer = _Writer(book, words)
    first, *others = sheets_of(document)
    writer.first(first, document)
    for sheet in others:
        writer.write(sheet, words(sheet.name), document["as_of"])
    book.close()
    return buffer.getvalue()


def _headings(language: str) -> Callable[[str], str]:
    """Headings and notes in a language; what stands in cells is the document's own: codes that
    other programs filter by, and names."""
    texts = workbook_texts(language)
    return lambda text: texts.known(text, text)


def sheets_of(document: Row) -> list[Sheet]:
    """Every sheet, in the order of a reader's questions; the first one has the totals."""
    sections = document["workloads"]
    return [
        picks_sheet(document),
        costs_sheet(sections),
        regions_sheet(sections),
        price_rate_sheet(sections),
        break_even_sheet(sections),
        bottleneck_sheet(sections),
        *curve_sheets(sections),
        measured_sheet(sections),
        gpu_memory_sheet(sections),
        sensitivity_sheet(sections),
        alternatives_sheet(sections),
        rejected_sheet(sections),
        evidence_sheet(sections),
        ages_sheet(sections),
        notes_sheet(sections),
        reproducibility_sheet(document),
    ]


class _Writer:
    """A workbook in the making, with the formats that its sheets share."""

    def __init__(self, book: Any, words: Callable[[str], str]) -> None:
        self._book, self._words = book, words
        self._text = book.add_format({})
        # What an editor would take for a formula stays text when the cell is edited, too.
        self._quoted = book.add_format({"quote_prefix": True})
        self._title = book.add_format({"bold": True, "font_size": 14})
        self._head = book.add_format(dict(_HEADING))
        self._input = book.add_format(dict(_INPUT))
        self._looks = {one.value: book.add_format(_shown(one)) for one in Look}
        self._sums = {one.value: book.add_format(_shown(one) | _SUM) for one in Look}

    def first(self, sheet: Sheet, document: Row) -> None:
        """The totals: the hours that every month follows, the picks, and their sums."""
        page = self.write(sheet, document["title"], document["as_of"])
        self._cell(page, (_HOURS_ROW, 0), self._words(HOURS_NAME))
        hours = document["totals"]["hours_per_month"]
        page.write_number(_HOURS_ROW, 1, hours, self._input)
        self._book.define_name(HOURS_NAME, f"='{page.get_name()}'!$B${_HOURS_ROW + 1}")
        self._totals(page, sheet, document["totals"])

    def write(self, sheet: Sheet, title: str, day: str) -> Any:
        """A sheet with its title above, headings that stay when it is scrolled, and a filter."""
        page = self._book.add_worksheet(self._words(sheet.name))
        self._cell(page, (0, 0), title, self._title)
        self._cell(page, (1, 0), f"{day}  {self._words(sheet.note)}")
        for at, column in enumerate(sheet.columns):
            page.write_string(_HEAD_ROW, at, self._words(column.heading), self._head)
        for number, row in enumerate(sheet.rows, start=_HEAD_ROW + 1):
            for at, column in enumerate(sheet.columns):
                self._value(page, (number, at), column, row, sheet.columns)
        self._finish(page, sheet)
        return page

    def _value(
        self, page: Any, at: Place, column: Column, row: Row, columns: Sequence[Column]
    ) -> None:
        value = column.of(row)
        if value is None:
            return
        look = self._looks[column.look]
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

    def _finish(self, page: Any, sheet: Sheet) -> None:
        page.freeze_panes(_HEAD_ROW + 1, 1)
        page.autofilter(_HEAD_ROW, 0, _HEAD_ROW + len(sheet.rows), len(sheet.columns) - 1)
        for at, column in enumerate(sheet.columns):
            page.set_column(at, at, _width(column, sheet.rows))
        page.set_landscape()
        page.fit_to_pages(1, 0)
        page.repeat_rows(_HEAD_ROW)

    def _totals(self, page: Any, sheet: Sheet, totals: Row) -> None:
        """Sums below the picks, then by market and by region."""
        first, last = _HEAD_ROW + 1, _HEAD_ROW + len(sheet.rows)
        line = last + 1
        known = {
            "Instances": totals["instances"],
            USD_HOUR: totals["usd_per_hour"],
            USD_MONTH: totals["usd_per_month"],
        }
        page.write_string(line, 0, self._words("Total"), self._sums[Look.TEXT])
        for at, column in enumerate(sheet.columns):
            if column.sums:
                formula = f"=SUM({_span(first, last, at)})"
                value = known[column.heading] or 0
                page.write_formula(line, at, formula, self._sums[column.look], value)
        for heading in ("Market", "Region"):
            by = totals[f"usd_per_hour_by_{heading.lower()}"]
            line = self._by(page, sheet, (line + 2, heading), by, totals["hours_per_month"])

    def _by(
        self, page: Any, sheet: Sheet, at: tuple[int, str], known: Mapping[str, float], hours: float
    ) -> int:
        """USD an hour and a month of each market, or region, found by SUMIF; the last line."""
        line, heading = at
        first, last = _HEAD_ROW + 1, _HEAD_ROW + len(sheet.rows)
        spans = {one.heading: _span(first, last, n) for n, one in enumerate(sheet.columns)}
        sums = ((USD_HOUR, Look.USD, 1.0), (USD_MONTH, Look.USD_MONTH, hours))
        for number, name in enumerate((heading, USD_HOUR, USD_MONTH)):
            page.write_string(line, number, self._words(name), self._head)
        for key, usd in known.items():
            line += 1
            self._cell(page, (line, 0), key)
            for number, (name, look, times) in enumerate(sums, start=1):
                formula = f"=SUMIF({spans[heading]},$A${line + 1},{spans[name]})"
                page.write_formula(line, number, formula, self._looks[look], usd * times)
        return line


def _shown(look: Look) -> dict[str, Any]:
    return {"num_format": look.value} if look.value else {}


def _formula(template: str, row: int, columns: Sequence[Column]) -> str:
    """`{heading}` -> that column's cell in this row."""
    at = {one.heading: number for number, one in enumerate(columns)}
    return "=" + _NAMED.sub(lambda found: f"${_letters(at[found[1]])}{row + 1}", template)


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


def _width(column: Column, rows: Sequence[Row]) -> int:
    """Characters: enough for numbers and days, and for most texts."""
    if column.look is not Look.TEXT:
        return _NARROWEST
    longest = max((len(str(column.of(row) or "")) for row in rows), default=0)
    return min(max(longest + 2, _NARROWEST), _WIDEST)
