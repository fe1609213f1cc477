"""Writes blocks as plain text of at most 100 columns. Cells that are too wide are folded, never cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from advisor.render.blocks import (
    Block,
    Chart,
    Column,
    Command,
    Facts,
    Items,
    Leaf,
    Look,
    Paragraph,
    Part,
    Section,
    Table,
)
from advisor.render.text import INDENT, WIDTH, fact, fact_lines, folded, folded_command, glued

# The gap between two cells, and the indent of a row.
_GAP = "  "
# Headings longer than this may be folded.
_HEADING = 12


def block_lines(blocks: Iterable[Block]) -> list[str]:
    """Return the lines of some blocks, with a title above each part that is not empty."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Part | Section):
            below = block_lines(block.blocks)
            lines += ["", block.title, *below] if below else []
        else:
            lines += _leaf_lines(block)
    return lines


def _leaf_lines(block: Leaf) -> list[str]:
    match block:
        case Facts(pairs):
            return fact_lines(pairs)
        case Paragraph(text):
            return folded(text)
        case Items(texts):
            return [line for text in texts for line in folded(f"- {text}", indent=2)]
        case Command(text):
            return [fact("", line) for line in folded_command(text, WIDTH - INDENT)]
        case Chart():
            return []
        case Table():
            return _table_lines(block)


def _table_lines(block: Table) -> list[str]:
    columns = block.columns
    rows = [[column.text(record) for column in columns] for record in block.records]
    rows += [list(block.total)] if block.total else []
    widths = _widths(columns, rows)
    long = [number for number, column in enumerate(columns) if column.look is Look.LONG]
    if sum(widths) + len(_GAP) * len(widths) > WIDTH and long:
        kept = [number for number in range(len(columns)) if number != long[-1]]
        total = [block.total[number] for number in kept] if block.total else ()
        return _table_lines(block._replace(columns=[columns[number] for number in kept], total=total))
    lines = []
    for row in ([column.heading for column in columns], *rows):
        cells = [folded(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            line = [
                part.rjust(width) if column.look.is_number else part.ljust(width)
                for part, width, column in zip(parts, widths, columns, strict=True)
            ]
            lines.append((_GAP + _GAP.join(line)).rstrip())
    return lines


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the widths of the columns. Headings are folded first, then the widest texts, but never words."""
    texts = list(zip(*rows, strict=True))
    least = [
        max(min(len(column.heading), _HEADING), *map(len, cells))
        for column, cells in zip(columns, texts, strict=True)
    ]
    words = [
        low
        if column.look.is_number
        else max(len(word) for cell in (column.heading, *cells) for word in glued(cell).split(" "))
        for column, cells, low in zip(columns, texts, least, strict=True)
    ]
    widths = [max(low, len(column.heading)) for low, column in zip(least, columns, strict=True)]
    for lowest in (least, words):
        while sum(widths) + len(_GAP) * len(widths) > WIDTH:
            spare = [(width > low, width) for width, low in zip(widths, lowest, strict=True)]
            if not max(spare)[0]:
                break
            widths[spare.index(max(spare))] -= 1
    return widths
