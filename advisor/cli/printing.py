"""Answers go to stdout, as text or JSON; talk goes to stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import click


def tell(line: str) -> None:
    """A line on stderr."""
    click.echo(line, err=True)


def print_json(document: Any, *, indent: int = 1) -> None:
    """The document on stdout."""
    click.echo(json.dumps(document, indent=indent, allow_nan=False))


def print_answer(
    output: str, document: Any, text: Callable[[], str | Iterable[str]], *, indent: int = 1
) -> None:
    """The document for `-o json`, else the text or its lines."""
    if output == "json":
        print_json(document, indent=indent)
        return
    shown = text()
    click.echo(shown if isinstance(shown, str) else "\n".join(shown))
