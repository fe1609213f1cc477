"""`advisor report`: sizing reports that people pass on."""

from __future__ import annotations

from datetime import date
from typing import Any

import click

from advisor.cli.questions import NOT_IN_REPORTS, Day, Name, SectionedCommand, options_of_kind, question_from
from advisor.cli.report_diff import diff
from advisor.cli.sending import send_option
from advisor.errors import UsageError
from advisor.questions.commands import RECOMMEND
from advisor.questions.listings import Sources
from advisor.render.sizing.formats import LANGUAGES, REPORT_FORMATS


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
