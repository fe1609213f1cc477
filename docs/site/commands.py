"""The commands as pages: help texts and options come from the code, so they cannot differ."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from advisor.cli.main import cli
from advisor.cli.questions import help_by_heading

Words = tuple[str, ...]


def commands(command: click.Command = cli, words: Words = ()) -> Iterator[tuple[Words, click.Command]]:
    """Every command that `--help` shows, with the words that call it; groups before theirs."""
    if command.hidden:
        return
    if words:
        yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            yield from commands(inner, (*words, name))


def command_pages() -> dict[str, str]:
    """A page for each command of the first level, by name; its subcommands are sections."""
    pages: dict[str, list[str]] = {}
    for words, command in commands():
        pages.setdefault(words[0], []).extend(_section(words, command))
    return {name: "\n".join(lines) for name, lines in pages.items()}


def _section(words: Words, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(("advisor", *words)))
    yield f"{'#' * len(words)} advisor {' '.join(words)}\n"
    yield from _paragraphs(command.help or "")
    if not isinstance(command, click.Group):
        yield f"```\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    for title, records in help_by_heading(command.get_params(context), context).items():
        yield f"| {title} | meaning |\n| --- | --- |"
        yield from (f"| `{option}` | {_cell(text)} |" for option, text in records)
        yield ""


def _paragraphs(text: str) -> Iterator[str]:
    """Click's paragraphs; those that it must not wrap (after a line of \\b) are examples."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        plain = paragraph.removeprefix("\b\n")
        yield f"{plain}\n" if plain == paragraph else f"```\n{inspect.cleandoc(plain)}\n```\n"


def _cell(text: str) -> str:
    """Text inside a table: no new line, no new column."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
