"""A recommendation about a language model as a file that people pass on, by the names of the
formats of sizing reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from advisor.render.document import plain

Document = Mapping[str, Any]


def _json(document: Document, _language: str, _command: str) -> str:
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _markdown(document: Document, language: str, command: str) -> str:
    from advisor.render.language.page import language_page
    from advisor.render.markdown import page_markdown

    return page_markdown(language_page(document, language, command))


def _html(document: Document, language: str, command: str) -> str:
    from advisor.render.html import page_html
    from advisor.render.language.page import language_page

    return page_html(language_page(document, language, command), language)


def _pdf(document: Document, language: str, command: str) -> bytes:
    from advisor.render.pdf import pdf_of

    return pdf_of(_html(document, language, command))


def _csv(document: Document, _language: str, _command: str) -> str:
    from advisor.render.language.tables import language_csv

    return language_csv(plain(document))


def _xlsx(document: Document, language: str, _command: str) -> bytes:
    from advisor.render.language.tables import language_sheets
    from advisor.render.sizing.workbook import workbook_of

    request = document["request"]
    title = f"{request['model']} {request['task']}"
    return workbook_of(language_sheets(plain(document)), title, document["as_of"], language)


RENDERERS: Mapping[str, Callable[[Document, str, str], str | bytes]] = {
    "html": _html,
    "pdf": _pdf,
    "md": _markdown,
    "csv": _csv,
    "xlsx": _xlsx,
    "json": _json,
}


def language_report(document: Document, name: str, language: str, command: str = "") -> bytes:
    """The bytes of a format; `command` asks the question again."""
    made = RENDERERS[name](document, language, command)
    return made.encode() if isinstance(made, str) else made
