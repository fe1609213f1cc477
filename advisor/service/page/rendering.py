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

from advisor.domain import HOURS_PER_MONTH
from advisor.report.speaking.sentences import told
from advisor.report.speaking.words import Words
from advisor.service.page.static_files import static_path
from advisor.units import ceil_ms, floor_rate, format_hours, format_mib, format_rate, format_usd

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
    words: Words = context["t"]
    translated = told(str(text), words.language)
    if translated is None:
        return Markup('<span lang="en">{}</span>').format(text)
    return escape(_FIELD.sub(lambda found: _field_name(found, words), translated))


def _field_name(found: re.Match[str], words: Words) -> str:
    """'--max-price' or 'max_price' as the page calls it; what is no field stays as it is."""
    name = next(one for one in found.groups() if one).replace("-", "_")
    label = words.known(f"field.{name}", "")
    return words("field.named", field=label) if label else found[0]


def surely(rate: float) -> str:
    """A bound that is told must hold: rounded down."""
    return f"{floor_rate(rate):,g}"


def per_month(usd_per_hour: float) -> str:
    """Of 730 hours, in whole dollars from ten on."""
    usd = usd_per_hour * HOURS_PER_MONTH
    return f"${usd:,.0f}" if usd >= 10 else format_usd(usd)


def percent(share: float) -> str:
    """'41 %'."""
    return f"{100 * share:.0f}\u00a0%"


def plain(number: float) -> str:
    """'500', '1.014': a number as a parameter has it."""
    return f"{number:.12g}"


FILTERS = {
    "usd": format_usd,
    "rate": format_rate,
    "mib": format_mib,
    "hours": format_hours,
    "ms": lambda ms: f"{ceil_ms(ms / 1000):,g} ms",
    "surely": surely,
    "per_month": per_month,
    "percent": percent,
    "plain": plain,
}
