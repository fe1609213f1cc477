"""What a column of a sheet is: its heading with the unit, how its cells look, what is in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Look(StrEnum):
    """Excel's number format of a cell; text and yes/no have none."""

    TEXT = ""
    WHOLE = "#,##0"
    NUMBER = "#,##0.00"
    RATE = "#,##0.0"
    USD = "#,##0.0000"
    USD_MONTH = "#,##0.00"
    PERCENT = "0.0"
    DAY = "yyyy-mm-dd"


class Column(NamedTuple):
    """`of` takes the value out of a row: text, number, bool, a day as YYYY-MM-DD, or None for an
    empty cell. Where there is a `formula`, that value is what it comes to: `{heading}` in it is
    this row's cell in that column. `sums`: the sheet's last row adds it up."""

    heading: str
    look: Look
    of: Callable[[Row], Any]
    formula: str = ""
    sums: bool = False


class Sheet(NamedTuple):
    """A table: `note` says above it what it holds."""

    name: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Row]


def field(heading: str, name: str, look: Look = Look.TEXT, **more: Any) -> Column:
    """A column of a row's own field; a dot leads into a part: 'price.usd_per_hour'."""
    path = name.split(".")
    return Column(heading, look, lambda row: _at(row, path), **more)


def _at(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        if row is None:
            return None
        row = row[name]
    return row


def with_workload(sections: Sequence[Row], rows_of: Callable[[Row], Sequence[Row]]) -> list[Row]:
    """The rows of all sections, each with the name of its `workload`."""
    return [{"workload": one["name"], **row} for one in sections for row in rows_of(one)]


WORKLOAD = field("Workload", "workload")
