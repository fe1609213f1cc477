"""Blocks as HTML, by templates that the service's page shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import UsageError
from advisor.extras import install_hint
from advisor.render.blocks import FILTERS, Column, English, Leaf, Look, Page, Part

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).with_name("templates")
_CLASSES = {Look.NAME: "nowrap", Look.DAY: "nowrap", Look.LONG: "long"}


def page_html(page: Page, language: str) -> str:
    """One file that needs no other. Raises `UsageError` where Jinja is not installed."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    template = environment().get_template("report.html")
    return template.render(page=page, language=language, style=style)


def fragment_html(blocks: Sequence[Leaf | Part]) -> str:
    """Blocks for somebody else's page, without a style. Raises `UsageError` where
    Jinja is not installed."""
    shared = environment().get_template("blocks.html").module
    return "".join(str(shared.block(block)) for block in blocks)  # type: ignore[attr-defined]


@cache
def environment(*folders: Path) -> Environment:
    """Templates of these folders, and the shared ones; compiled once a process."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise UsageError("HTML reports need more packages", hint=install_hint("report")) from error
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.filters |= FILTERS
    made.filters |= {"shown": shown, "cell": _cell, "look": _look, "kind": lambda block: type(block).__name__}
    return made


def shown(text: str) -> Markup:
    """A text; English is marked where nothing else is."""
    from markupsafe import Markup, escape

    english = Markup('<span lang="en">{}</span>')
    return english.format(str(text)) if isinstance(text, English) else escape(text)


def _cell(record: Any, column: Column) -> Markup:
    from markupsafe import Markup

    text = shown(column.text(record))
    if column.look is Look.LONG:
        text = text.replace(":", Markup(":<wbr>"))
    if column.link:
        label = Markup(' aria-label="{}"').format(column.label(record)) if column.label else ""
        text = Markup('<a href="{}"{}>{}</a>').format(column.link(record), label, text)
    return text


def _look(column: Column) -> Markup:
    from markupsafe import Markup

    name = "number" if column.look.is_number else _CLASSES.get(column.look, "")
    return Markup(' class="{}"').format(name) if name else Markup("")
