"""Rows of a public JSON file, wherever they stand in it and however their fields are spelt.

A row is an object with one of the wanted fields; what stands beside it further out (a provider, a
date, a currency) belongs to it too. Fields are compared without case, blanks and signs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, NamedTuple

from advisor.catalog.providers.rows import is_to_come
from advisor.domain.machines import is_positive
from advisor.errors import UsageError, one_line

# No public list is nested deeper, and a file of brackets alone would be.
_DEEPEST = 12
_MOST_SHOWN = 60
# What nothing costs by the hour, and no machine has of anything.
_LEAST, _MOST = 1e-6, 1e6


class BadFieldError(UsageError):
    """A field that is not what it says; the message has its place in the file."""


class Row(NamedTuple):
    """A row of a JSON list: its position ('offers[3]'), its fields by their plain names, and the names
    that the file uses."""

    path: str
    fields: Mapping[str, Any]
    written: Mapping[str, str] = MappingProxyType({})

    def text(self, names: tuple[str, ...]) -> str:
        """The first of these fields that has a text; "" where none has."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return one_line(value.strip())
        return ""

    def number(self, names: tuple[str, ...]) -> float | None:
        """The first of these fields that tells anything, above 0; `BadFieldError` for what is no
        number, None where there is none."""
        for name in names:
            value = self.fields.get(name)
            if value not in (None, "", "N/A"):
                return self._positive(name, value)
        return None

    def day(self, names: tuple[str, ...]) -> date | None:
        """The day of the first of these fields that begins with one; none to come."""
        text = self.text(names)
        if not text:
            return None
        try:
            day = date.fromisoformat(text[:10])
        except ValueError:
            raise self.bad(f"has the date '{text[:_MOST_SHOWN]}'; write 2026-11-20") from None
        if is_to_come(day):
            raise self.bad(f"has the date {day}, which is in the future")
        return day

    def bad(self, reason: str) -> BadFieldError:
        """The error that refuses the file."""
        return BadFieldError(
            "{place} {reason}; nothing was imported", place=self.path, reason=reason, field="file"
        )

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
    """Every object that has one of the fields, in the order of the file."""
    yield from _rows(document, Row("", {}), frozenset(wanted), 0)


def plain(name: str) -> str:
    """'USD per GPU-hour' -> 'usdpergpuhour'."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _rows(value: Any, outer: Row, wanted: frozenset[str], depth: int) -> Iterator[Row]:
    if depth > _DEEPEST:
        raise UsageError("the file is nested deeper than any price list", field="file")
    if isinstance(value, list):
        for index, entry in enumerate(value):
            inside = outer._replace(path=f"{outer.path}[{index}]")
            yield from _rows(entry, inside, wanted, depth + 1)
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
                yield from _rows(entry, inside, wanted, depth + 1)
