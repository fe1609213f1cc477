"""A block of lines on a terminal that is drawn again and again; rich is imported only for that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

_PER_SECOND = 1  # whoever draws takes CPU time from what is measured


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether lines can be drawn again there."""
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return stream is not None and stream.isatty() and not dumb


@contextmanager
def live_block(lines: Callable[[], Sequence[str]], *, stderr: bool) -> Iterator[Callable[[str], None]]:
    """The lines, drawn every second; what is yielded prints a line above them that stays.

    The cursor is back and the last state stands when it ends, however it ends. NO_COLOR holds.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def drawn() -> Text:
        text = Text("\n".join(lines()), no_wrap=True, overflow="ellipsis")
        text.highlight_regex(r"(?m)^[a-z]+ ", "bold")
        text.highlight_regex(r"\d+ (failed|timed out|out of memory|contaminated)", "yellow")
        return text

    console = Console(stderr=stderr, highlight=False)
    with Live(console=console, get_renderable=drawn, refresh_per_second=_PER_SECOND, redirect_stdout=False):
        yield lambda line: console.print(line, markup=False, soft_wrap=True)
