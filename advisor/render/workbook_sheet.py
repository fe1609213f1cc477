"""A sheet of a workbook, and the one text that its columns are written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from advisor.render.content import Column, Look

Record = Mapping[str, Any]


class Sheet(NamedTuple):
    """A table: `note` says above it what it holds."""

    name: str
    note: str
    columns: Sequence[Column]
    records: Sequence[Record]


def columns_in(
    text: str, formulas: Mapping[str, str] | None = None, sums: Sequence[str] = ()
) -> list[Column]:
    """The columns that a text lists: `heading=path:look`, with `;` between them. Without a look a
    column has text."""
    made = []
    for part in text.split(";"):
        heading, _, rest = part.strip().partition("=")
        path, _, look = rest.partition(":")
        formula = (formulas or {}).get(heading, "")
        made.append(Column(heading, path, Look(look or "text"), formula=formula, sums=heading in sums))
    return made
