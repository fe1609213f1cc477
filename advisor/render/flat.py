"""A report as one CSV: every value of the document in a row that says which part it is of.

`part` names where in the document a row stands (`price_throughput`, `curves.vcpus.points`,
`recommendation.rejected`), `workload` whose it is, `item` which one of its list, as 0, or 3_1 for
the second item of the fourth. Every other column is a value's name within the part. Numbers are
whole, to the last digit; null and nothing are empty cells. A text that a spreadsheet would compute
has an apostrophe in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from advisor.csv_cells import csv_of

# Blocks of a section are parts of their own so deep; what lies deeper, or in an item of a list, is
# told in its row.
_PART_DEPTH = 2


class Row(NamedTuple):
    """Values by name, of one item of a part."""

    part: str
    workload: str
    item: str
    values: dict[str, Any]


def report_csv(document: Mapping[str, Any]) -> str:
    """The whole document, a row an item; see above."""
    rows = list(report_rows(document))
    columns = dict.fromkeys(("part", "workload", "item"))
    for row in rows:
        columns |= dict.fromkeys(row.values)
    records = [{"part": row.part, "workload": row.workload, "item": row.item, **row.values} for row in rows]
    return csv_of(
        [{name: _cell(value) for name, value in record.items()} for record in records], list(columns)
    )


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def report_rows(document: Mapping[str, Any]) -> Iterator[Row]:
    """Rows in the document's order; those of the whole report have no workload."""
    whole = {name: value for name, value in document.items() if name != "workloads"}
    yield from _item(whole, "report", "", "", "")
    for workload in document["workloads"]:
        yield from _item(workload, "workload", "", workload["name"], "")


def _item(value: Mapping[str, Any], part: str, item: str, workload: str, path: str) -> Iterator[Row]:
    """Its own values in one row, then its blocks and lists."""
    own: dict[str, Any] = {}
    inner: list[Row] = []
    deep = bool(item) or (bool(path) and path.count(".") + 1 >= _PART_DEPTH)
    for name, part_value in _flattened(value, deep=deep):
        below = f"{path}.{name}" if path else name
        if isinstance(part_value, Mapping):
            inner += _item(part_value, below, "", workload, below)
        elif isinstance(part_value, list):
            inner += _list(part_value, below, item, workload)
        else:
            own[name] = part_value
    if own:
        yield Row(part, workload, item, own)
    yield from inner


def _list(values: list[Any], path: str, item: str, workload: str) -> Iterator[Row]:
    for number, value in enumerate(values):
        name = f"{item}_{number}" if item else str(number)
        if isinstance(value, Mapping):
            yield from _item(value, path, name, workload, path)
        else:
            yield Row(path, workload, name, {"value": value})


def _flattened(value: Mapping[str, Any], *, deep: bool, before: str = "") -> Iterator[tuple[str, Any]]:
    """Names with what stands there; a block below the parts is told by names with dots."""
    for name, inner in value.items():
        if isinstance(inner, Mapping) and deep:
            yield from _flattened(inner, deep=deep, before=f"{before}{name}.")
        else:
            yield f"{before}{name}", inner
