"""The kinds of blocks that an answer is made of. Every format renders these kinds and no others. Texts
are in the reader's language already, or in English if they have no translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from advisor.domain import HOURS_PER_MONTH
from advisor.messages import (
    Message,
    Spell,
    floor_rate,
    format_mib,
    format_rate,
    format_usd,
    option_name,
    short_usd,
)
from advisor.render.i18n.catalogue import Texts
from advisor.render.tables import value_at


def lower_rate(rate: float) -> str:
    """Return a lower bound as text, rounded down."""
    return f"{floor_rate(rate):,g}"


def per_month(usd_per_hour: float) -> str:
    """Return the dollars of 730 hours as text, in whole dollars from ten on."""
    usd = usd_per_hour * HOURS_PER_MONTH
    return f"${usd:,.0f}" if usd >= 10 else format_usd(usd)


def percent(share: float) -> str:
    """Return a share in percent: '41 %'."""
    return f"{100 * share:.0f}\u00a0%"


def plain(number: float) -> str:
    """Return a number as a parameter is written: '500', '1.014'."""
    return f"{number:.12g}"


FILTERS = {
    "usd": format_usd,
    "rate": format_rate,
    "mib": format_mib,
    "lower": lower_rate,
    "per_month": per_month,
    "plain": plain,
}


def translated(sentence: Message | str, t: Texts, spell: Spell = option_name) -> str:
    """Translate a sentence of the engine into the reader's language; `spell` writes names of fields."""
    return t.render(sentence, spell)


class Look(Enum):
    """The kind of a column's values; each format writes each kind in a way that suits it."""

    TEXT = "text"
    NAME = "name"
    LONG = "long"  # may break anywhere
    DAY = "day"
    WHOLE = "whole"
    NUMBER = "number"
    RATE = "rate"
    MS = "ms"  # of seconds
    LOWER = "lower"  # rounded down
    USD = "usd"
    COST = "cost"  # of a month or a run, with cents; empty if unknown
    SHARE = "share"
    MIB = "mib"

    @property
    def is_number(self) -> bool:
        """True if the column's values are numbers, which are flush right."""
        return self in _WRITERS


_WRITERS: Mapping[Look, Callable[[Any], str]] = {
    Look.WHOLE: "{:,}".format,
    Look.NUMBER: plain,
    Look.RATE: format_rate,
    Look.MS: lambda seconds: format_rate(1000 * seconds),
    Look.LOWER: lower_rate,
    Look.USD: format_usd,
    Look.COST: short_usd,
    Look.SHARE: percent,
    Look.MIB: format_mib,
}


class Column(NamedTuple):
    """One column of a table. `of` gets the value from a record: a path of fields ('price.as_of') or a
    function. `unknown` replaces None. `link` returns the address behind a cell."""

    heading: str
    of: str | Callable[[Any], Any]
    look: Look = Look.TEXT
    unknown: str = ""
    link: Callable[[Any], str] | None = None

    def value(self, record: Any) -> Any:
        """Return a text, number, bool, day as YYYY-MM-DD, or None for an empty cell."""
        return self.of(record) if callable(self.of) else value_at(record, self.of)

    def text(self, record: Any) -> str:
        """Return the value as people read it."""
        value = self.value(record)
        if value is None:
            return self.unknown
        write = _WRITERS.get(self.look)
        return value if isinstance(value, str) else write(value) if write else str(value)


class Table(NamedTuple):
    """Records in columns. `chosen` returns whether a record is the recommended one; `total` holds the cells
    of a last row."""

    columns: Sequence[Column]
    records: Sequence[Any]
    chosen: Callable[[Any], bool] = lambda _record: False
    total: Sequence[str] = ()


class Mark(NamedTuple):
    """A place in a picture that a page lets readers point at: its distance from the left and the top, in
    percent of the picture, and a text about it. `href` is the address of a link, if any."""

    x_percent: float
    y_percent: float
    text: str
    href: str = ""


class Chart(NamedTuple):
    """A picture as self-contained SVG, and its numbers in words. A table of the numbers follows it, for
    formats without pictures."""

    svg: str
    alt: str
    note: str = ""
    marks: Sequence[Mark] = ()

    @property
    def src(self) -> str:
        """The picture as a data URL: percent-escaped, a third shorter than base 64. It contains no quotation
        mark, `&`, `<` or `>`, so an attribute can hold it unescaped."""
        from urllib.parse import quote  # only pages need it

        return "data:image/svg+xml," + quote(self.svg.replace('"', "'"), safe=" /:=,;()'-._~!*@+?[]{}|^`")


class Paragraph(NamedTuple):
    """A paragraph; its `kind` is text, answer (most important), or note (may be skipped)."""

    text: str
    kind: str = "text"


class Items(NamedTuple):
    """A bulleted list."""

    texts: Sequence[str]


class Command(NamedTuple):
    """Lines that the reader can copy."""

    text: str


class Facts(NamedTuple):
    """Pairs of a name and a text about it."""

    pairs: Sequence[tuple[str, str]]


Leaf = Paragraph | Items | Command | Facts | Table | Chart


class Part(NamedTuple):
    """Blocks under a title. A page can collapse it if it is a `detail`."""

    title: str
    blocks: Sequence[Leaf]
    detail: bool = False


class Section(NamedTuple):
    """Parts and blocks under a larger title that links can point to."""

    title: str
    anchor: str
    blocks: Sequence[Leaf | Part]


Block = Leaf | Part | Section


class Page(NamedTuple):
    """A whole page or report."""

    kicker: str
    title: str
    blocks: Sequence[Block]
