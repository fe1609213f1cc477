"""`advisor report`: sizing reports that people pass on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import click

from advisor.answers.reporting.reports import read_input
from advisor.answers.reporting.reproducing import Input
from advisor.answers.reporting.saved import read_saved
from advisor.cli.questions import (
    NOT_IN_REPORTS,
    Day,
    SectionedCommand,
    options_of_kind,
    output_in,
    question_from,
    typed_option,
)
from advisor.cli.sending import Destination, send_option, send_out
from advisor.errors import UsageError
from advisor.questions.commands import RECOMMEND
from advisor.questions.fields import Choice
from advisor.questions.listings import Sources
from advisor.render.diff import difference
from advisor.render.diff_text import difference_markdown, difference_text
from advisor.render.formats import LANGUAGES, REPORT_FORMATS

_STDIN = "-"
DIFFERENT, TROUBLE = 1, 128


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# Of each format a file's end, its media type, and what writes it.
_FORMATS: dict[str, tuple[str, str, Callable[[Mapping[str, Any]], str]]] = {
    "table": ("txt", "text/plain; charset=utf-8", difference_text),
    "md": ("md", "text/markdown; charset=utf-8", difference_markdown),
    "json": ("json", "application/json", _json),
}


@click.command()
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@output_in(*_FORMATS)
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
    try:
        document = _shown(old, new, output, out, send)
    except Exception as error:
        if exit_code and getattr(error, "exit_code", 1) == DIFFERENT:  # which means changed
            error.exit_code = TROUBLE  # type: ignore[attr-defined]
        raise
    return DIFFERENT if exit_code and document["changed"] else 0


def _shown(old: str, new: str, output: str, out: str | None, send: tuple[str, ...]) -> dict[str, Any]:
    to = Destination.of(out, send)
    if old == new == _STDIN:
        raise UsageError("only one of the two can be read from stdin")
    document = difference(*(read_saved(_content(name)) for name in (old, new)))
    extension, media_type, written = _FORMATS[output]
    content = written(document).encode(errors="replace")
    to.write(content)
    if to.targets:
        from advisor.runs.delivery.letter import Attachment, difference_message

        name = f"report-diff-{document['new']['as_of']}.{extension}"
        send_out(difference_message(document, [Attachment(name, media_type, content)]), to.targets)
    return document


def _content(name: str) -> Input:
    return Input(name, sys.stdin.buffer.read()) if name == _STDIN else read_input(name)


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
@typed_option(
    Choice("report format", REPORT_FORMATS),
    "--format",
    "format_name",
    help="[default: by the end of --out, else md]",
)
@click.option("--out", type=click.Path(), metavar="FILE", help="[default: stdout, as -]")
@typed_option(
    Choice("language", LANGUAGES), "--language", default=LANGUAGES[0], help="Language of the report's text."
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
    **options: Any,
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
    from advisor.cli.report_run import Ask, make_report

    sources = question_from(Sources, options)
    given = {name: value for name, value in options.items() if _is_given(ctx, name)}
    ask = Ask(given, sources, plan_file, saved, title, as_of)
    make_report(ask, Destination.of(out, send), format_name, language, send)


report.params += options_of_kind(RECOMMEND, without=NOT_IN_REPORTS, required=False)
report.params += options_of_kind(Sources)
report.add_command(diff)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _alone(ctx: click.Context) -> None:
    """What is said before a subcommand would be lost."""
    if any(_is_given(ctx, name) for name in ctx.params):
        raise UsageError(f"`report {ctx.invoked_subcommand}` takes its options behind its name")
