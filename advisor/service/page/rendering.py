"""The templates: escaped by default, and filled in with numbers as the product prints them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from advisor.messages import Message
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import FILTERS
from advisor.service.page.static_files import static_path

_ENGLISH = Markup('<span lang="en">{}</span>')
TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template as text; a name that it misses is an error, never a gap."""
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """One for the process: templates are compiled once."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.filters |= FILTERS
    made.globals |= {"static": static_path, "tell": _tell}
    return made


@pass_context
def _tell(context: Context, text: object) -> Markup:
    """A sentence in the page's language, with fields by the names that the page has for them;
    English is marked where nothing else is."""
    texts: Texts = context["t"]

    def spell(field: str) -> str:
        label = texts.known(f"field.{field}", "")
        return texts("field.named", field=label) if label else field

    sentence = text if isinstance(text, Message) else str(text)
    shown = texts.render(sentence, spell)
    return escape(shown) if texts.speaks(sentence) else _ENGLISH.format(shown)
