"""A recommendation about a language model as a file that people pass on, by the names of the
formats of sizing reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from advisor.render.document import plain

Document = Mapping[str, Any]


class Told(NamedTuple):
    """How a report is written: its language, the command that asks again, and its title."""

    language: str = "en"
    command: str = ""
    title: str = ""


def _json(document: Document, _told: Told) -> str:
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _markdown(document: Document, told: Told) -> str:
    from advisor.render.language.page import language_page
    from advisor.render.markdown import page_markdown

    return page_markdown(language_page(document, *told))


def _html(document: Document, told: Told) -> str:
    from advisor.render.html import page_html
    from advisor.render.language.page import language_page

    return page_html(language_page(document, *told), told.language)


def _pdf(document: Document, told: Told) -> bytes:
    from advisor.render.pdf import pdf_of

    return pdf_of(_html(document, told))


def _csv(document: Document, _told: Told) -> str:
    from advisor.render.language.tables import language_csv

    return language_csv(plain(document))


def _xlsx(document: Document, told: Told) -> bytes:
    from advisor.render.language.tables import language_sheets
    from advisor.render.sizing.workbook import workbook_of

    request = document["request"]
    title = told.title or f"{request['model']} {request['task']}"
    return workbook_of(language_sheets(plain(document)), title, document["as_of"], told.language)


RENDERERS: Mapping[str, Callable[[Document, Told], str | bytes]] = {
    "html": _html,
    "pdf": _pdf,
    "md": _markdown,
    "csv": _csv,
    "xlsx": _xlsx,
    "json": _json,
}


def language_report(document: Document, name: str, told: Told) -> bytes:
    """The bytes of a format."""
    made = RENDERERS[name](document, told)
    return made.encode() if isinstance(made, str) else made
