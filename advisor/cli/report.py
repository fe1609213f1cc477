"""`advisor report`: sizing reports that people pass on."""

from __future__ import annotations

from datetime import date
from typing import Any

import click

from advisor.cli.parameters import Day, Name
from advisor.cli.report_diff import diff
from advisor.cli.report_options import ReportGroup, question_parameters, said_in
from advisor.cli.sending import send_option
from advisor.errors import UsageError
from advisor.render.sizing.formats import LANGUAGES, REPORT_FORMATS


class Language(Name):
    """One of the languages, in whatever case."""

    def __init__(self) -> None:
        super().__init__("language", LANGUAGES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """'zh-cn' -> 'zh-CN'."""
        spelled = {one.lower(): one for one in self.known}
        text = str(value).lower()
        return spelled[text] if text in spelled else super().convert(value, param, ctx)


@click.group(cls=ReportGroup, invoke_without_command=True)
@click.option(
    "--plan", "plan_file", type=click.Path(), metavar="FILE",
    help="Several workloads at once: a YAML file (docs/reports.md); - reads it from stdin.",
)  # fmt: skip
@click.option(
    "--from", "saved", multiple=True, type=click.Path(), metavar="FILE",
    help="A saved `recommend -o json` (repeatable), or a saved report; - reads stdin.",
)  # fmt: skip
@click.option("--title", help="What the report is called.  [default: the workload, or the plan]")
@click.option("--date", "as_of", type=Day("--date"), help="The report's day.  [default: today]")
@click.option(
    "--format", "format_name", type=Name("report format", tuple(REPORT_FORMATS)),
    help="[default: by the end of --out, else md]",
)  # fmt: skip
@click.option("--out", type=click.Path(), metavar="FILE", help="[default: stdout, as -]")
@click.option(
    "--language", type=Language(), default=LANGUAGES[0], show_default=True,
    help="Of what people read.",
)  # fmt: skip
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
    """A report on a workload, or on a whole plan of them, that stands alone.

    \b
    advisor report --task inference --model googlenet --target-throughput 500 --out report.html
    advisor report --plan workloads.yaml --title "Vision team" --out team.pdf
    advisor recommend ... -o json | advisor report --from - --language zh-CN --out report.md
    """
    if ctx.invoked_subcommand is not None:
        _alone(ctx)
        return
    from advisor.cli.report_run import Ask, Output, make_report

    said = said_in(ctx, report)
    output = Output.of(out, format_name, language, send)
    make_report(Ask(said, asked, plan_file, saved, title, as_of), output)


report.params += question_parameters()
report.add_command(diff)


def _alone(ctx: click.Context) -> None:
    """What is said before a subcommand would be lost."""
    given = [
        name for name in ctx.params
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]  # fmt: skip
    if given:
        raise UsageError(f"`report {ctx.invoked_subcommand}` takes its options behind its name")
