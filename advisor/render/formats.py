"""The formats of a sizing report: one table. Each takes the document and a language alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from advisor.errors import UsageError, unknown_name
from advisor.extras import install_hint
from advisor.files import csv_of
from advisor.messages import Message
from advisor.render.document import plain, with_messages
from advisor.render.i18n.catalogue import LANGUAGES as LANGUAGES

Document = Mapping[str, Any]
# GitHub takes comments of 65,536 characters: of more workloads, the answers alone are told.
MOST_CHARACTERS = 60_000


class ReportFormat(NamedTuple):
    """A format of reports: its name, suffix and content; `about` is for people. `render` imports what it
    needs (packages of the extra `report`) when it is called, and gives text (written as UTF-8) or, where
    `binary`, bytes."""

    extension: str
    media_type: str
    about: str
    render: Callable[[Document, str], str | bytes]
    binary: bool = False
    needs: tuple[str, ...] = ()

    def require_packages(self) -> None:
        """`UsageError` where a package is missing, before the long work; none is imported."""
        from importlib.util import find_spec

        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise UsageError(
                "{format} reports need {packages}",
                format=self.extension,
                packages=missing,
                hint=install_hint("report"),
            )

    def content(self, document: Document, language: str = LANGUAGES[0]) -> bytes:
        """The file's bytes."""
        made = self.render(document, language)
        return made.encode() if isinstance(made, str) else made


def _json(document: Document, _language: str) -> str:
    # Indented it were half as large again: twenty workloads take megabytes.
    compact = (",", ":")
    return json.dumps(with_messages(document), separators=compact, allow_nan=False, ensure_ascii=False) + "\n"


def report_markdown(document: Document, language: str) -> str:
    """Markdown; details stay out where it would be too long to paste."""
    from advisor.render.markdown import page_markdown
    from advisor.render.views.report import COMMENT, report_page

    whole, brief = COMMENT
    text = page_markdown(report_page(document, language, whole))
    if len(text) <= MOST_CHARACTERS:
        return text
    return page_markdown(report_page(document, language, brief))


def _xlsx(document: Document, language: str) -> bytes:
    from advisor.render.xlsx import report_workbook

    return report_workbook(plain(document), language)


def report_html(document: Document, language: str) -> str:
    """One file that needs no other."""
    from advisor.render.html import page_html
    from advisor.render.views.report import FILE, report_page

    room = next(room for room in FILE if len(document["workloads"]) <= room.workloads)
    return page_html(report_page(document, language, room), language)


def report_pdf(document: Document, language: str) -> bytes:
    """Pages, with bookmarks."""
    from advisor.render.html import pdf_of

    return pdf_of(report_html(document, language))


# Blocks of a section are parts of their own so deep; what lies deeper, or in an item of a list, is
# told in its row.
_PART_DEPTH = 2


class Row(NamedTuple):
    """Values by name, of one item of a part."""

    part: str
    workload: str
    item: str
    values: dict[str, Any]


def report_csv(document: Document, _language: str = LANGUAGES[0]) -> str:
    """A report as one CSV: a row a workload (`summary`) of the columns that come first, as the workbook's
    first sheet has them, then every value of the document in a row that says which part it is of.

    `part` names where in the document a row stands (`price_throughput`, `curves.vcpus.points`,
    `recommendation.rejected`), `workload` whose it is, `item` which one of its list, as 0, or 3_1 for the
    second item of the fourth. Every other column is a value's name within the part. Numbers are whole, to the
    last digit; null and nothing are empty cells. A text that a spreadsheet would compute has an apostrophe in
    front."""
    from advisor.render.xlsx import pick_rows

    values = plain(document)
    rows = [Row("summary", str(pick.pop("name")), "", pick) for pick in pick_rows(values)]
    records = [
        {"part": row.part, "workload": row.workload, "item": row.item}
        | {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in row.values.items()
        }
        for row in (*rows, *report_rows(values))
    ]
    columns = dict.fromkeys(name for record in records for name in record)
    return csv_of(
        [{name: "" if value is None else value for name, value in record.items()} for record in records],
        list(columns),
    )


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


REPORT_FORMATS: Mapping[str, ReportFormat] = {
    "html": ReportFormat(
        "html", "text/html; charset=utf-8", "one file with charts; prints well", report_html
    ),
    "pdf": ReportFormat(
        "pdf",
        "application/pdf",
        "the same in pages, with bookmarks",
        report_pdf,
        binary=True,
        needs=("weasyprint",),
    ),
    "md": ReportFormat("md", "text/markdown; charset=utf-8", "pastes into a pull request", report_markdown),
    "csv": ReportFormat("csv", "text/csv; charset=utf-8", "every number and chart, a row each", report_csv),
    "xlsx": ReportFormat(
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "a sheet for each table, sums first",
        _xlsx,
        binary=True,
        needs=("xlsxwriter",),
    ),
    "json": ReportFormat("json", "application/json", "the document that the others are made of", _json),
}


def report_format(name: str) -> ReportFormat:
    """The format of that name; `UsageError` with the nearest for another."""
    if name not in REPORT_FORMATS:
        raise unknown_name("report format", name, REPORT_FORMATS)
    return REPORT_FORMATS[name]


def format_of_file(name: str) -> str:
    """The format that a file's name ends with: 'Team.HTML' is html."""
    stem, _, extension = name.rpartition(".")
    if stem and extension.lower() in REPORT_FORMATS:
        return extension.lower()
    raise UsageError(
        "--out {name} does not end in a known format",
        name=name,
        hint=Message("name --format, or end it in {ends}", ends=[f".{end}" for end in REPORT_FORMATS]),
    )
