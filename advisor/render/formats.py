"""The table of formats for sizing reports. Each format needs only the document and a language."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from advisor.errors import UsageError, unknown_name
from advisor.extras import install_hint
from advisor.files import csv_of
from advisor.messages import Message
from advisor.render.document import plain, with_messages
from advisor.render.i18n.catalogue import LANGUAGES as LANGUAGES

Document = Mapping[str, Any]
# GitHub allows comments of 65,536 characters; longer Markdown is cut down to the answers.
MOST_CHARACTERS = 60_000


class ReportFormat(NamedTuple):
    """A format of reports: its name, suffix and content; `about` describes it to people. `render` imports the
    packages that it needs (extra `report`) when it is called. It returns text (to be written as UTF-8) or, if
    `binary`, bytes."""

    extension: str
    media_type: str
    about: str
    render: Callable[[Document, str], str | bytes]
    binary: bool = False
    needs: tuple[str, ...] = ()

    def require_packages(self) -> None:
        """Raise `UsageError` if a package is missing, before the long work starts. Nothing is imported."""
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
        """Return the content of the file as bytes."""
        made = self.render(document, language)
        return made.encode() if isinstance(made, str) else made


def _json(document: Document, _language: str) -> str:
    # Indenting would add half to the size, and twenty workloads take megabytes.
    compact = (",", ":")
    return json.dumps(with_messages(document), separators=compact, allow_nan=False, ensure_ascii=False) + "\n"


def report_markdown(document: Document, language: str) -> str:
    """Return the report as Markdown, with less of it if it would be too long to paste."""
    from advisor.render.markdown import page_markdown
    from advisor.render.views.report import COMMENT, report_page

    for room in COMMENT:
        text = page_markdown(report_page(document, language, room))
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def _xlsx(document: Document, language: str) -> bytes:
    from advisor.render.xlsx import report_workbook

    return report_workbook(document, language)


def report_html(document: Document, language: str) -> str:
    """Return the report as one self-contained HTML file."""
    from advisor.render.html import page_html
    from advisor.render.views.report import FILE, report_page

    room = next(room for room in FILE if len(document["workloads"]) <= room.workloads)
    return page_html(report_page(document, language, room), language)


def report_pdf(document: Document, language: str) -> bytes:
    """Return the report as PDF pages, with bookmarks."""
    from advisor.render.html import pdf_of

    return pdf_of(report_html(document, language))


def report_csv(document: Document, _language: str = LANGUAGES[0]) -> str:
    """Return a row per workload and a column per fact of its pick. Numbers are unrounded, unknown values
    empty, and texts that a spreadsheet would evaluate begin with an apostrophe. The workbook also has the
    tables behind the picks, and the JSON has every value."""
    from advisor.render.xlsx import pick_rows

    rows = pick_rows(plain(document))
    for row in rows:
        row |= {name: str(value).lower() for name, value in row.items() if isinstance(value, bool)}
        row |= {name: "" for name, value in row.items() if value is None}
    return csv_of(rows, list(rows[0]) if rows else [])


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
    "csv": ReportFormat("csv", "text/csv; charset=utf-8", "a row a workload, for a spreadsheet", report_csv),
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
    """Return the format of that name, or raise `UsageError` with the most similar name."""
    if name not in REPORT_FORMATS:
        raise unknown_name("report format", name, REPORT_FORMATS)
    return REPORT_FORMATS[name]


def format_of_file(name: str) -> str:
    """Return the format that a file's suffix names: 'Team.HTML' is html."""
    stem, _, extension = name.rpartition(".")
    if stem and extension.lower() in REPORT_FORMATS:
        return extension.lower()
    raise UsageError(
        "--out {name} does not end in a known format",
        name=name,
        hint=Message("name --format, or end it in {ends}", ends=[f".{end}" for end in REPORT_FORMATS]),
    )
