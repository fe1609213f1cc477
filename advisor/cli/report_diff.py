"""`advisor report diff`: what changed between two saved reports or recommendations."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from advisor.cli.questions import Name
from advisor.cli.sending import send_option, send_out, targets_of
from advisor.errors import UsageError

_STDIN = "-"
DIFFERENT, TROUBLE = 1, 128
_MEDIA = {
    "table": ("txt", "text/plain; charset=utf-8"),
    "md": ("md", "text/markdown; charset=utf-8"),
    "json": ("json", "application/json"),
}


@click.command()
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("-o", "--output", type=Name("output format", tuple(_MEDIA)), default="table", show_default=True)
@click.option("--out", type=click.Path(), metavar="FILE", help="[default: stdout, as -]")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if anything changed, 0 if not; 2 or 128 on an error, as git diff does.",
)
@send_option
def diff(old: str, new: str, output: str, out: str | None, exit_code: bool, send: tuple[str, ...]) -> int:
    """Show what changed between two saved reports or recommendations (JSON; - is stdin).

    \b
    advisor report --plan workloads.yaml --format json --out november.json
    advisor report diff october.json november.json
    advisor report diff old.json new.json --send "smtp://mail:587?to=team@example.com"
    """
    with _errors_apart(exit_code):
        document = _shown(old, new, output, out, send)
    return DIFFERENT if exit_code and document["changed"] else 0


@contextmanager
def _errors_apart(exit_code: bool) -> Iterator[None]:
    """With --exit-code, an error that would end with 1 ends with `TROUBLE`: 1 means changed."""
    try:
        yield
    except Exception as error:
        if exit_code and getattr(error, "exit_code", 1) == DIFFERENT:
            error.exit_code = TROUBLE  # type: ignore[attr-defined]
        raise


def _shown(old: str, new: str, output: str, out: str | None, send: tuple[str, ...]) -> dict[str, Any]:
    """Write and send the difference, and return its document."""
    from advisor.files import require_writable

    path = None if out in (None, _STDIN) else Path(str(out))
    targets = targets_of(send)
    if path is not None:
        require_writable(path)
    document = _difference(old, new)
    text = _written(document, output)
    _print(text, path, quiet=bool(targets) and out is None)
    if targets:
        from advisor.runs.delivery.message import Attachment, difference_message

        extension, media_type = _MEDIA[output]
        file = Attachment(_file_name(document, extension), media_type, text.encode())
        send_out(difference_message(document, [file]), targets)
    return document


def _difference(old: str, new: str) -> dict[str, Any]:
    from advisor.answers.reporting.reproducing import Input
    from advisor.answers.reporting.saved import read_saved
    from advisor.render.difference.document import difference

    if old == new == _STDIN:
        raise UsageError("only one of the two can be read from stdin")
    before, after = (read_saved(Input(name, _content(name))) for name in (old, new))
    return difference(before, after)


def _content(name: str) -> bytes:
    if name == _STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"'{name}' cannot be read: {error.strerror}") from None


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _written(document: Mapping[str, Any], output: str) -> str:
    from advisor.render.difference.text import difference_markdown, difference_text

    writers: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "table": difference_text,
        "md": difference_markdown,
        "json": _json,
    }
    return writers[output](document)


def _print(text: str, path: Path | None, *, quiet: bool) -> None:
    """To the file, or to stdout where nobody else gets it."""
    if path is not None:
        from advisor.files import write_whole

        write_whole(path, text)
    elif not quiet:
        sys.stdout.buffer.write(text.encode(errors="replace"))


def _file_name(document: Mapping[str, Any], extension: str) -> str:
    return f"report-diff-{document['new']['as_of']}.{extension}"
