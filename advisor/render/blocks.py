"""The few kinds of blocks that an answer is told in: what each format renders, and nothing else.

A text is in the reader's language already; `English` is one that nobody translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from advisor.domain import HOURS_PER_MONTH
from advisor.messages import Message, Spell, option_name, render
from advisor.render.i18n.catalogue import Texts
from advisor.units import ceil_ms, floor_rate, format_mib, format_rate, format_span, format_usd, short_usd


def lower_rate(rate: float) -> str:
    """A lower bound: rounded down."""
    return f"{floor_rate(rate):,g}"


def per_month(usd_per_hour: float) -> str:
    """Dollars of 730 hours, in whole dollars from ten on."""
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
    "hours": format_span,
    "ms": lambda ms: f"{ceil_ms(ms / 1000):,g} ms",
    "lower": lower_rate,
    "per_month": per_month,
    "percent": percent,
    "plain": plain,
}


class English(str):
    """A text that is English on a page of another language."""

    __slots__ = ()


def translated(sentence: Message | str, t: Texts, spell: Spell = option_name) -> str:
    """A sentence of the engine in the reader's language, with fields as `spell` names them."""
    text = t.render(sentence, spell)
    # A text of parameters alone is its own translation; they may be translated all the same.
    is_translated = t.speaks(sentence) or text != render(sentence, str, spell)
    return text if is_translated else English(text)


class Look(Enum):
    """The kind of a column's values, which each format writes in its own way."""

    TEXT = "text"
    NAME = "name"
    LONG = "long"  # may break anywhere
    FLAG = "flag"
    DAY = "day"
    WHOLE = "whole"
    NUMBER = "number"
    RATE = "rate"
    LOWER = "lower"  # rounded down
    USD = "usd"
    COST = "cost"  # of a month or a run, in cents; empty where there is none
    SHARE = "share"
    MIB = "mib"

    @property
    def is_number(self) -> bool:
        """Whether it stands on the right."""
        return self in _WRITERS


_WRITERS: Mapping[Look, Callable[[Any], str]] = {
    Look.WHOLE: "{:,}".format,
    Look.NUMBER: plain,
    Look.RATE: format_rate,
    Look.LOWER: lower_rate,
    Look.USD: format_usd,
    Look.COST: short_usd,
    Look.SHARE: percent,
    Look.MIB: format_mib,
}


class Column(NamedTuple):
    """`of` takes the value out of a record: a path of its fields ('price.as_of'), or a function.
    What is None is `unknown`. `link` gives the address that a cell leads to, `label` what a link
    is called where nobody sees its row."""

    heading: str
    of: str | Callable[[Any], Any]
    look: Look = Look.TEXT
    unknown: str = ""
    link: Callable[[Any], str] | None = None
    label: Callable[[Any], str] | None = None

    def value(self, record: Any) -> Any:
        """Text, number, bool, a day as YYYY-MM-DD, or None for an empty cell."""
        if callable(self.of):
            return self.of(record)
        for name in self.of.split("."):
            if record is None:
                return None
            record = record[name]
        return record

    def text(self, record: Any) -> str:
        """The value as people read it."""
        value = self.value(record)
        if value is None:
            return self.unknown
        write = _WRITERS.get(self.look)
        return value if isinstance(value, str) else write(value) if write else str(value)


class Table(NamedTuple):
    """Records in columns; `chosen` says of a record whether it is the recommended one. `total` are
    the cells of a last row; `attributes` what a page's row has for a script."""

    columns: Sequence[Column]
    records: Sequence[Any]
    chosen: Callable[[Any], bool] = lambda _record: False
    total: Sequence[str] = ()
    attributes: Callable[[Any], Mapping[str, Any]] | None = None


class Mark(NamedTuple):
    """A place of a picture that a page lets people point at: its distance from the left and the
    top, in percent of the picture, and what is there, in words. `href` leads on from it."""

    x_percent: float
    y_percent: float
    text: str
    href: str = ""


class Chart(NamedTuple):
    """A picture as SVG that needs no other file, and its numbers in words. `table` has them for
    formats without pictures, where it does not stand below anyway."""

    svg: str
    alt: str
    note: str = ""
    table: Table | None = None
    marks: Sequence[Mark] = ()

    @property
    def src(self) -> str:
        """Its own address: escaped, a third shorter than in base 64. It has no quotation mark and
        no `&`, `<` or `>`: an attribute takes it as it is."""
        from urllib.parse import quote  # pages alone need it

        return "data:image/svg+xml," + quote(self.svg.replace('"', "'"), safe=" /:=,;()'-._~!*@+?[]{}|^`")


class Paragraph(NamedTuple):
    """`kind` is text, answer (what matters most), or note (what may be skipped)."""

    text: str
    kind: str = "text"


class Items(NamedTuple):
    """A list."""

    texts: Sequence[str]


class Command(NamedTuple):
    """Lines to be copied."""

    text: str


class Facts(NamedTuple):
    """Names, each with what is to be said of it."""

    pairs: Sequence[tuple[str, str]]


Leaf = Paragraph | Items | Command | Facts | Table | Chart


class Part(NamedTuple):
    """Blocks under a title; a `detail` is folded away where a page can fold."""

    title: str
    blocks: Sequence[Leaf]
    detail: bool = False


class Section(NamedTuple):
    """Parts and blocks under a larger title, that links lead to."""

    title: str
    anchor: str
    blocks: Sequence[Leaf | Part]


Block = Leaf | Part | Section


class Page(NamedTuple):
    """All of it."""

    kicker: str
    title: str
    blocks: Sequence[Block]
