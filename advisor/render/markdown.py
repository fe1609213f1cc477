"""Writes blocks as Markdown that shows every text literally.

On GitHub or GitLab, a text could mention people (@team), link to issues (#12), set formulas ($x$) or contain
HTML. All of that is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from advisor.render.blocks import (
    Block,
    Chart,
    Command,
    Facts,
    Items,
    Leaf,
    Page,
    Paragraph,
    Part,
    Section,
    Table,
)

_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]<>|~$])")
# A character reference by name or number, like &copy;.
_ENTITY = re.compile(r"&(?=#|\w)")
# An invisible comment keeps the sign and the word apart; backslashes do not.
_CALLS = re.compile(r"([@#!])(?=\w)")
_APART = "<!-- -->"
_CHINESE = re.compile("[\u4e00-\u9fff]")


def page_markdown(page: Page) -> str:
    """Return the whole page as Markdown."""
    head = [f"# {md_text(page.title)}", *([f"*{md_text(page.kicker)}*"] if page.kicker else [])]
    return "\n\n".join([*head, *rendered(page.blocks)]) + "\n"


def rendered(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the Markdown of each block that is not empty."""
    for block in blocks:
        if isinstance(block, Section):
            yield f"## {md_text(block.title)}"
            yield from rendered(block.blocks)
        elif isinstance(block, Part):
            title, content = md_text(block.title), list(rendered(block.blocks))
            if content and block.detail:
                inside = "\n\n".join(content)
                yield f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"
            elif content:
                yield from (f"### {title}", *content)
        elif text := _leaf_markdown(block):
            yield text


def _leaf_markdown(block: Leaf) -> str:
    match block:
        case Paragraph(text, kind):
            return f"**{md_text(text)}**" if kind == "answer" else md_text(text)
        case Items(texts):
            return "\n".join(f"- {md_text(text)}" for text in texts)
        case Facts(pairs):
            # The colon is full-width if a name or its text is Chinese.
            colons = ("：" if _CHINESE.search(name + text) else ": " for name, text in pairs)  # noqa: RUF001
            facts = zip(pairs, colons, strict=True)
            return "\n".join(f"- {md_text(name)}{colon}{md_text(text)}" for (name, text), colon in facts)
        case Command(text):
            return md_block(text, "sh")
        case Chart():
            return ""
        case Table():
            return _table_markdown(block)


def _table_markdown(table: Table) -> str:
    rows = []
    for record in table.records:
        first, *others = [
            column.text(record) if column.look.is_number else md_text(column.text(record))
            for column in table.columns
        ]
        rows.append([f"**{first}**" if table.chosen(record) else first, *others])
    if table.total:
        rows.append([f"**{text}**" if text else "" for text in table.total])
    right = [number for number, column in enumerate(table.columns) if column.look.is_number]
    return md_table([column.heading for column in table.columns], rows, right)


def md_text(value: object) -> str:
    """Escape a text for a paragraph, a heading or a cell of a table."""
    text = " ".join(str(value).split())
    text = _MEANS_SOMETHING.sub(r"\\\1", text)
    text = _ENTITY.sub("&amp;", text)
    return _CALLS.sub(rf"\1{_APART}", text)


def md_block(text: str, language: str = "") -> str:
    """Return lines as a code block, to be copied."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def md_table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a table. Cells are Markdown already; the columns numbered in `right` hold numbers."""
    numbers = set(right)
    rule = ["--:" if column in numbers else "---" for column in range(len(head))]
    lines = ([md_text(name) for name in head], rule, *rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
