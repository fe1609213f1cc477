"""Reads a user's price file as checked CSV lines or JSON rows; `Contents` is what a provider makes of them.

A bad CSV line refuses the whole file with its number and the reason, unless the provider leaves such lines
out. A JSON row is an object with one of the wanted fields, at any depth; fields of the objects around it
(a provider, a date, a currency) belong to it too. Field names are compared without case, blanks and
punctuation."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from msgspec import Struct, field

from advisor.catalog.overlay import ImportedFiles, Overlay
from advisor.domain import Market
from advisor.domain.machines import is_positive
from advisor.errors import UsageError, one_line
from advisor.messages import Message

# A reason to leave a price out.
UNKNOWN_TYPE = "the type is not known"
NOTHING_IMPORTED = "; nothing was imported"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
# Believable ranges: a value outside has a slip of the decimal point, or the wrong unit. Wide enough for
# machines of the next years, and for fractions of a cent.
_SANE = {
    "vcpus": (1, 100_000),
    "physical_cores": (1, 100_000),
    "memory_gib": (1 / 64, 1_000_000),
    "gpu_count": (1, 10_000),
    "gpu_memory_gib": (1, 2_000),
    "local_disk_gib": (1, 10_000_000),
    "local_disk_read_iops": (1, 1_000_000_000),
    "price_per_hour": (1e-6, 1_000_000),
    # SkyPilot's columns. RAM: twice that of the largest machine of 2026, 32 TiB.
    "vCPUs": (1 / 16, 100_000),
    "MemoryGiB": (1 / 16, 65_536),
    "AcceleratorCount": (1 / 64, 10_000),
    "SizeInMiB": (1, 2_048_000),
    "Price": (1e-6, 1_000_000),
    "SpotPrice": (1e-6, 1_000_000),
}


class PriceFile(Struct, frozen=True, kw_only=True, dict=True):
    """A user's file. `name` is the import's name (and the cloud of rows without one), `as_of` the day on
    which a file without dates was fetched; `accept_implausible` takes prices far from the known ones.
    `bundled` are the clouds of the bundle, `other_imports` the user's other imports."""

    path: Path
    name: str
    text: str
    as_of: date | None = None
    accept_implausible: bool = False
    bundled: frozenset[str] = frozenset()
    other_imports: Sequence[ImportedFiles] = ()

    @property
    def is_json(self) -> bool:
        """Return whether it is JSON; any other file is CSV."""
        return self.text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{") or self.path.suffix.lower() == ".json"

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of its columns; empty for JSON."""
        header = "" if self.is_json else self.text.removeprefix("\ufeff").partition("\n")[0]
        return frozenset(cell.strip().strip('"') for cell in header.split(","))

    @cached_property
    def document(self) -> Any:
        """Its parsed JSON, None for CSV; `UsageError` for invalid JSON."""
        try:
            return json.loads(self.text, parse_constant=_no_constant) if self.is_json else None
        except (ValueError, RecursionError) as error:
            raise UsageError(
                "the file is not valid JSON: {error}", error=one_line(str(error)), field="file"
            ) from error

    def required_date(self, what: str) -> date:
        """The day on which it was fetched; `UsageError` if the user did not give it."""
        if self.as_of is None:
            hint = "say when it was fetched: --as-of 2026-07-20"
            raise UsageError(f"{what} has no date in it; {hint}", field="as_of")
        return self.as_of


class PriceRow(Struct, frozen=True, kw_only=True):
    """One checked offer. `price` is in `currency`; None if the source has none.

    `facts` has a number or text for each known fact in `own_offers.FACTS`."""

    line: int
    cloud: str
    instance_type: str
    region: str
    market: Market
    price: float | None
    kind: str
    as_of: date
    source: str
    facts: Mapping[str, float | str]
    currency: str = "USD"
    terms: str = ""


# The manifest of an import, and its tables by path.
Tables = tuple[dict[str, Any], dict[str, str]]


class Contents(Struct, frozen=True, kw_only=True):
    """What a provider made of a file: `rows` of clouds that the bundle lacks, `overlays` with prices of its
    types, or `tables` of other facts about its clouds and their dates (`days`). `left_out` counts dropped
    rows by reason, `examples` has one of each, and `read_as` counts values that were converted."""

    rows: Sequence[PriceRow] = ()
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    tables: Tables | None = None
    days: Sequence[date] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    read_as: Counter[str] = field(default_factory=Counter)

    def leave_out(self, why: str, what: str = "") -> None:
        """Count a dropped row, and keep the first example of each reason."""
        self.left_out[why] += 1
        if what:
            self.examples.setdefault(why, what)


def csv_lines(
    text: str,
    needed: tuple[str, ...],
    optional: tuple[str, ...] | None,
    broken: list[UsageError] | None = None,
) -> Iterator[Line]:
    """The lines of a CSV, with columns in any order; `optional` None allows any other columns. Lines of
    another length go to `broken`, if given, else they are errors."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(header, needed, optional)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                error = bad(reader.line_num, f"has {len(cells)} cells, the header {len(header)}")
                if broken is None:
                    raise error
                broken.append(error)
                continue
            stripped = (cell.strip() for cell in cells)
            yield Line(reader.line_num, dict(zip(header, stripped, strict=True)))
    except csv.Error as error:
        raise bad(reader.line_num, f"is no CSV ({error})") from error


def lines_of(
    file: PriceFile, needed: tuple[str, ...], optional: tuple[str, ...], empty: Message
) -> list[Line]:
    """The lines of a user's CSV; `UsageError` with the message `empty` where there are none."""
    lines = list(csv_lines(file.text, needed, optional))
    if not lines:
        raise UsageError(empty)
    return lines


def require_first(seen: dict[tuple[str, ...], int], key: tuple[str, ...], line: int, what: str) -> None:
    """Raise `UsageError` for a second line with the same key; `seen` has the first line of each key."""
    first = seen.setdefault(key, line)
    if first != line:
        raise bad(line, f"{what}; the first is in line {first}")


def bad(line: int, reason: str) -> UsageError:
    """The error for a bad line, which refuses the file or leaves out the line."""
    return UsageError(f"line {line} {one_line(reason)}{NOTHING_IMPORTED}")


class Line(NamedTuple):
    """A line of CSV: its number, and its stripped cells by column; a bad cell refuses the line."""

    number: int
    cells: Mapping[str, str]

    def bad(self, reason: str) -> UsageError:
        """The error that refuses this line."""
        return bad(self.number, reason)

    def text(self, column: str) -> str:
        """The text of a cell; '' if there is no such column."""
        return self.cells.get(column, "")

    def amount(self, column: str, kind: type = float) -> float:
        """A cell as a finite number above 0, whole if `kind` is int."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0) or (kind is int and value != int(value)):
            what = "a whole number" if kind is int else "a number"
            raise self.bad(f"has {column} '{text}'; it must be {what} above 0, or empty")
        least, most = _SANE.get(column, (0.0, math.inf))
        if not least <= value <= most:
            raise self.bad(f"has {column} '{text}'; {least:,g} to {most:,.10g} can be believed")
        return kind(value)  # type: ignore[no-any-return]

    def name(self, column: str, usual: str = "") -> str:
        """A cell as a name that a table can hold without quotes."""
        text = self.text(column) or usual
        if not _NAME.match(text):
            raise self.bad(f"has {column} '{text}'; use letters, digits and . _ + - only")
        return text

    def words(self, column: str) -> str:
        """A cell as text for people that a table can hold without quotes."""
        text = self.text(column)
        if not text.isprintable() or '"' in text:
            raise self.bad(f"has a {column} with a quote or a line break")
        return text.replace(",", ";")

    def word(self, column: str, known: Sequence[str], usual: str = "") -> str:
        """A cell as one of the known words; currencies in any case."""
        text = self.text(column) or usual
        word = text.upper() if column == "currency" else text
        if word not in known:
            what = f"'{text}'" if text else "nothing"
            raise self.bad(f"has {what} as {column}; known: {', '.join(known)}")
        return word

    def day(self, column: str) -> date:
        """A cell as a date such as 2026-07-20; a future one is refused, since it would never count as old."""
        text = self.text(column)
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise self.bad(f"has {column} '{text}'; write a date like 2026-07-20") from None
        if is_future(day):
            raise self.bad(f"has {column} '{text}', which is in the future; write the day of the price")
        return day


def is_future(day: date) -> bool:
    """Return whether a day is further ahead than time zones explain."""
    return day > datetime.now(UTC).date() + timedelta(days=1)


def _check_header(header: list[str], needed: tuple[str, ...], optional: tuple[str, ...] | None) -> None:
    missing = [name for name in needed if name not in header]
    known = header if optional is None else (*needed, *optional)
    unknown = [name for name in header if name not in known]
    twice = sorted({name for name in header if header.count(name) > 1})
    if missing:
        raise UsageError(f"the file lacks the columns: {', '.join(missing)}")
    if unknown:
        raise UsageError(f"the file has unknown columns: {', '.join(unknown)}; known: {', '.join(known)}")
    if twice:
        raise UsageError(f"the file has columns twice: {', '.join(twice)}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


# No public list is nested deeper; a file of nothing but brackets could be.
_DEEPEST = 12
_MOST_SHOWN = 60
# Believable range of any number in a JSON row.
_LEAST, _MOST = 1e-6, 1e6


class Row(NamedTuple):
    """A row of a JSON list: its position ('offers[3]'), its fields, and how the file spells their names."""

    path: str
    fields: Mapping[str, Any]
    written: Mapping[str, str] = MappingProxyType({})

    def text(self, names: tuple[str, ...]) -> str:
        """The first non-empty text among these fields; "" for none."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return one_line(value.strip())
        return ""

    def number(self, names: tuple[str, ...]) -> float | None:
        """The first of these fields that is set, as a number above 0; None if none is set."""
        for name in names:
            value = self.fields.get(name)
            if value not in (None, "", "N/A"):
                return self._positive(name, value)
        return None

    def day(self, names: tuple[str, ...]) -> date | None:
        """The date at the start of the first of these fields that is set; `UsageError` for a future one."""
        text = self.text(names)
        if not text:
            return None
        try:
            day = date.fromisoformat(text[:10])
        except ValueError:
            raise self.bad(f"has the date '{text[:_MOST_SHOWN]}'; write 2026-11-20") from None
        if is_future(day):
            raise self.bad(f"has the date {day}, which is in the future")
        return day

    def bad(self, reason: str) -> UsageError:
        """The error that refuses the file."""
        text = "{place} {reason}; nothing was imported"
        return UsageError(text, place=self.path, reason=reason, field="file")

    def _positive(self, name: str, value: Any) -> float:
        if isinstance(value, str):
            try:
                value = float(value.strip().removeprefix("$"))
            except ValueError:
                value = math.nan
        if not is_positive(value) or not _LEAST <= value <= _MOST:
            field, text = self.written.get(name, name), json.dumps(self.fields.get(name))
            raise self.bad(
                f"has {field} {text[:_MOST_SHOWN]}; it must be a number above 0, at most 1,000,000"
            )
        return float(value)


def rows_with(document: Any, wanted: tuple[str, ...]) -> Iterator[Row]:
    """Every object that has one of the wanted fields, in the order of the file."""
    yield from _rows_below(document, Row("", {}), frozenset(wanted), 0)


def plain(name: str) -> str:
    """A field's name for comparison: 'USD per GPU-hour' -> 'usdpergpuhour'."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _rows_below(value: Any, outer: Row, wanted: frozenset[str], depth: int) -> Iterator[Row]:
    if depth > _DEEPEST:
        raise UsageError("the file is nested deeper than any price list", field="file")
    if isinstance(value, list):
        for index, entry in enumerate(value):
            inside = outer._replace(path=f"{outer.path}[{index}]")
            yield from _rows_below(entry, inside, wanted, depth + 1)
    elif isinstance(value, dict):
        named = {plain(name): entry for name, entry in value.items()}
        own = {n: v for n, v in named.items() if not isinstance(v, (list, dict))}
        written = {**outer.written, **{plain(name): one_line(name) for name in value}}
        row = Row(outer.path or "the file", {**outer.fields, **own}, written)
        if wanted & named.keys():
            yield row
            return
        for name, entry in value.items():
            if isinstance(entry, (list, dict)):
                inner = f"{outer.path}.{name}" if outer.path else name
                inside = row._replace(path=inner[-_MOST_SHOWN:])
                yield from _rows_below(entry, inside, wanted, depth + 1)
