"""Prints answers to stdout and progress to stderr; on a terminal, progress is a block that is redrawn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import click

_PER_SECOND = 1  # redraws per second; drawing takes CPU time from what is measured


def is_terminal(stream: IO[str] | None) -> bool:
    """True if a stream is a terminal on which lines can be redrawn."""
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return stream is not None and stream.isatty() and not dumb


@contextmanager
def live_block(lines: Callable[[], Sequence[str]], *, stderr: bool) -> Iterator[Callable[[str], None]]:
    """Draw the lines anew every second; yield a function that prints a permanent line above them.

    However the block ends, the cursor is restored and the last lines stay visible. NO_COLOR is respected."""
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


def tell(line: str) -> None:
    """Print a line on stderr."""
    click.echo(line, err=True)


def print_json(document: Any, *, indent: int = 1) -> None:
    """Print a document as JSON on stdout."""
    click.echo(json.dumps(document, indent=indent, allow_nan=False))


def print_answer(
    output: str, document: Any, text: Callable[[], str | Iterable[str]], *, indent: int = 1
) -> None:
    """Print an answer on stdout: the document as JSON for `-o json`, else the text or lines of `text()`."""
    if output == "json":
        print_json(document, indent=indent)
        return
    shown = text()
    click.echo(shown if isinstance(shown, str) else "\n".join(shown))
