"""`advisor report`: sizing reports that people pass on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import click

from advisor.answers.reporting.reproducing import Input
from advisor.answers.reporting.saved import read_saved
from advisor.cli.questions import NOT_IN_REPORTS, Day, Name, SectionedCommand, options_of_kind, question_from
from advisor.cli.sending import send_option, send_out, targets_of
from advisor.errors import UsageError
from advisor.files import require_writable
from advisor.questions.commands import RECOMMEND
from advisor.questions.listings import Sources
from advisor.render.diff import difference
from advisor.render.diff_text import difference_markdown, difference_text
from advisor.render.formats import LANGUAGES, REPORT_FORMATS

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
    path = None if out in (None, _STDIN) else Path(str(out))
    targets = targets_of(send)
    if path is not None:
        require_writable(path)
    document = _difference(old, new)
    text = _written(document, output)
    _print(text, path, quiet=bool(targets) and out is None)
    if targets:
        from advisor.runs.delivery.letter import Attachment, difference_message

        extension, media_type = _MEDIA[output]
        file = Attachment(_file_name(document, extension), media_type, text.encode())
        send_out(difference_message(document, [file]), targets)
    return document


def _difference(old: str, new: str) -> dict[str, Any]:
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


class Language(Name):
    """One of the languages, in whatever case."""

    def __init__(self) -> None:
        super().__init__("language", LANGUAGES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """'zh-cn' -> 'zh-CN'."""
        spelled = {language.lower(): language for language in self.known}
        text = str(value).lower()
        return spelled[text] if text in spelled else super().convert(value, param, ctx)


class ReportGroup(SectionedCommand, click.Group):
    """With the way out for a file that stands alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        if not args:
            raise click.exceptions.NoArgsIsHelpError(ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a hint for a file."""
        if args[0] not in self.commands:
            raise UsageError(
                "`report` has no command '{name}'",
                name=args[0],
                hint="for a saved answer: --from FILE, for a plan of workloads: --plan FILE",
            )
        return super().resolve_command(ctx, args)


@click.group(cls=ReportGroup, invoke_without_command=True)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(),
    metavar="FILE",
    help="YAML file with several workloads (see docs/how-to/reports.md); - reads stdin.",
)
@click.option(
    "--from",
    "saved",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Saved `recommend -o json` (repeatable) or saved report; - reads stdin.",
)
@click.option("--title", help="Title.  [default: the workload or the plan's title]")
@click.option(
    "--date", "as_of", type=Day("--date"), help="Date of the report; ages count from it.  [default: today]"
)
@click.option(
    "--format",
    "format_name",
    type=Name("report format", tuple(REPORT_FORMATS)),
    help="[default: by the end of --out, else md]",
)
@click.option("--out", type=click.Path(), metavar="FILE", help="[default: stdout, as -]")
@click.option(
    "--language",
    type=Language(),
    default=LANGUAGES[0],
    show_default=True,
    help="Language of the report's text.",
)
@send_option
@click.pass_context
def report(
    ctx: click.Context,
    /,
    plan_file: str | None,
    saved: tuple[str, ...],
    title: str | None,
    as_of: date | None,
    format_name: str | None,
    out: str | None,
    language: str,
    send: tuple[str, ...],
    **asked: Any,
) -> None:
    """Write a report that stands alone, about one workload or a plan of several.

    \b
    advisor report --task inference --model googlenet --target-throughput 500 --out report.html
    advisor report --plan workloads.yaml --title "Vision team" --out team.pdf
    advisor recommend ... -o json | advisor report --from - --language zh-CN --out report.md
    """
    if ctx.invoked_subcommand is not None:
        _alone(ctx)
        return
    from advisor.cli.report_run import Ask, Output, make_report

    sources = question_from(Sources, asked)
    given = {name: value for name, value in asked.items() if _is_given(ctx, name)}
    output = Output.of(out, format_name, language, send)
    make_report(Ask(given, sources, plan_file, saved, title, as_of), output)


report.params += options_of_kind(RECOMMEND, without=NOT_IN_REPORTS, required=False)
report.params += options_of_kind(Sources)
report.add_command(diff)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _alone(ctx: click.Context) -> None:
    """What is said before a subcommand would be lost."""
    if any(_is_given(ctx, name) for name in ctx.params):
        raise UsageError(f"`report {ctx.invoked_subcommand}` takes its options behind its name")
