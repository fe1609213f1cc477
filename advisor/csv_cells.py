"""Cells of CSV files that people open in spreadsheets, which take some texts for formulas.

A name out of somebody's file that reads `=HYPERLINK(..)` would run when the export is opened. Such
a cell gets an apostrophe in front, which spreadsheets take for "this is text". Which texts: OWASP,
"CSV Injection" (= + - @, tab, carriage return, and the full-width forms that some languages'
spreadsheets take for the same). Numbers stay what they are, negative ones too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_STARTERS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
# Blanks and invisible characters before it do not make it a text for every program.
_UNSEEN = "[\\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*"
_STEERS = "\t\r\n"
_FORMULA = re.compile(f"{_UNSEEN}[{_STARTERS}]")
# Where ';' or a tab separates cells (Excel in half of Europe), a formula may begin behind one.
_INNER = re.compile(f"([;\t\r\n])(?={_UNSEEN}[{_STARTERS}])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def harmless(value: Any) -> Any:
    """The value as a cell that no spreadsheet computes; what is no text is returned as it is."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    text = _INNER.sub(r"\1'", value)
    starts = _FORMULA.match(text) or text.startswith(tuple(_STEERS))
    return f"'{text}" if starts else text


def csv_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Flat records as CSV, below the columns' names; see `csv_lines`."""
    return csv_lines([dict(zip(columns, columns, strict=True))], columns) + csv_lines(rows, columns)


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Flat records as lines of CSV with harmless cells; null is an empty cell, and what is in no
    column is left out."""
    import csv  # most answers are no tables
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([harmless(row.get(column, "")) for column in columns] for row in rows)
    return buffer.getvalue()
