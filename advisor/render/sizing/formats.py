"""The formats of a sizing report: one table. Each takes the document and a language alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from advisor.errors import UsageError, unknown_name
from advisor.render.document import plain
from advisor.render.i18n.catalogue import LANGUAGES as LANGUAGES

Document = Mapping[str, Any]


class ReportFormat(NamedTuple):
    """What a file of it is called and is; `about` is for people. `render` imports what it needs
    (packages of the extra `report`) when it is called, and gives text (written as UTF-8) or, where
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
                f"{self.extension} reports need {', '.join(missing)}: pip install "
                "'instance-sizing-advisor[report]'"
            )

    def content(self, document: Document, language: str = LANGUAGES[0]) -> bytes:
        """The file's bytes."""
        made = self.render(document, language)
        return made.encode() if isinstance(made, str) else made


def _json(document: Document, _language: str) -> str:
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _markdown(document: Document, language: str) -> str:
    from advisor.render.sizing.markdown import report_markdown

    return report_markdown(document, language)


def _csv(document: Document, _language: str) -> str:
    from advisor.render.sizing.flat import report_csv

    return report_csv(plain(document))


def _xlsx(document: Document, language: str) -> bytes:
    from advisor.render.sizing.workbook.writing import report_workbook

    return report_workbook(plain(document), language)


def _html(document: Document, language: str) -> str:
    from advisor.render.sizing.html import report_html

    return report_html(document, language)


def _pdf(document: Document, language: str) -> bytes:
    from advisor.render.sizing.pdf import report_pdf

    return report_pdf(document, language)


REPORT_FORMATS: Mapping[str, ReportFormat] = {
    "html": ReportFormat("html", "text/html; charset=utf-8", "one file with charts; prints well",
                         _html, needs=("jinja2",)),
    "pdf": ReportFormat("pdf", "application/pdf", "the same in pages, with bookmarks",
                        _pdf, binary=True, needs=("jinja2", "weasyprint")),
    "md": ReportFormat("md", "text/markdown; charset=utf-8", "pastes into a pull request",
                       _markdown),
    "csv": ReportFormat("csv", "text/csv; charset=utf-8", "every number and chart, a row each",
                        _csv),
    "xlsx": ReportFormat(
        "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "live numbers and sums, for whoever pays", _xlsx, binary=True,
        needs=("xlsxwriter",),
    ),
    "json": ReportFormat("json", "application/json", "the document that the others are made of",
                         _json),
}  # fmt: skip


def report_format(name: str) -> ReportFormat:
    """The format of that name; `UsageError` with the nearest for another."""
    if name not in REPORT_FORMATS:
        raise unknown_name("report format", name, REPORT_FORMATS)
    return REPORT_FORMATS[name]


def format_of_file(name: str) -> str:
    """The format that a file's name ends with: 'Team.HTML' is html."""
    stem, _, extension = name.rpartition(".")
    found = [key for key, one in REPORT_FORMATS.items() if one.extension == extension.lower()]
    if stem and found:
        return found[0]
    known = ", ".join(f".{one.extension}" for one in REPORT_FORMATS.values())
    raise UsageError(f"--out {name}: its end names no format; name --format, or end it in {known}")
