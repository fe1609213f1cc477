"""Markdown that says what a text says, whatever stands in it.

Where reports are pasted (GitHub, GitLab), a name may also call people (@team), point at issues
(#12), set formulas ($x$) or hold HTML: all of that is shown, and none of it done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]<>|~$])")
# A reference, or a character by its number, like &copy;.
_ENTITY = re.compile(r"&(?=#|\w)")
# A comment between them is seen by nobody, and keeps them apart: backslashes do not.
_CALLS = re.compile(r"([@#!])(?=\w)")
_APART = "<!-- -->"


def md_text(value: object) -> str:
    """A text as itself, in a paragraph, a heading or a cell of a table."""
    text = " ".join(str(value).split())
    text = _MEANS_SOMETHING.sub(r"\\\1", text)
    text = _ENTITY.sub("&amp;", text)
    return _CALLS.sub(rf"\1{_APART}", text)


def md_code(value: object) -> str:
    """A name as code; nothing in it means anything. '' stays ''."""
    text = " ".join(str(value).split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def md_block(text: str, language: str = "") -> str:
    """Lines as they are, to be copied."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def md_table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table; cells are Markdown already. Columns `right` hold numbers."""
    numbers = set(right)
    rule = ["--:" if at in numbers else "---" for at in range(len(head))]
    return "\n".join(_line(one) for one in ([md_text(one) for one in head], rule, *rows))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def md_folded(title: str, content: str) -> str:
    """Content that opens when it is asked for, where Markdown is shown as a page."""
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"
