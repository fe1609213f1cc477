"""The templates: escaped by default, and filled in with numbers as the product prints them."""

from __future__ import annotations

import re
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

# A field as messages name it: an option, a word of the API, or the word that a message begins with.
_FIELD = re.compile(
    r"--([a-z]+(?:-[a-z]+)*)"
    r"|\b([a-z]+(?:_[a-z]+)+)\b"
    r"|^([a-z]+)(?= (?:must|is|has|takes|\u5fc5|\u6700|\u662f))"
)
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
    """A sentence of the engine in the page's language; English is marked where nothing else is."""
    words: Texts = context["t"]
    sentence = text if isinstance(text, Message) else str(text)
    if not words.speaks(sentence):
        return Markup('<span lang="en">{}</span>').format(str(sentence))
    translated = words.render(sentence)
    return escape(_FIELD.sub(lambda found: _field_name(found, words), translated))


def _field_name(found: re.Match[str], words: Texts) -> str:
    """'--max-price' or 'max_price' as the page calls it; what is no field stays as it is."""
    name = next(one for one in found.groups() if one).replace("-", "_")
    label = words.known(f"field.{name}", "")
    return words("field.named", field=label) if label else found[0]
