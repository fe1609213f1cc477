"""What a schedule reports, and to whom: the options of `schedule add`, checked when it is added."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.parameters import Name
from advisor.errors import UsageError

if TYPE_CHECKING:
    from advisor.runs.store.records import Reporting

FORMATS = ("html", "pdf", "md", "csv", "xlsx", "json")
_PLAN = click.option(
    "--report", "plan", type=click.Path(), metavar="PLAN",
    help="After each run, report on the workloads of this plan (docs/reports.md).",
)  # fmt: skip
_SEND = click.option(
    "--send", multiple=True, metavar="TARGET",
    help="Where the report goes, with what changed since the last one; as in `report --send`.",
)  # fmt: skip
_FORMAT = click.option(
    "--report-format", type=Name("report format", FORMATS), default="html", show_default=True
)
_WHEN = click.option(
    "--send-when", type=Name("--send-when", ("always", "changed")), default="always",
    show_default=True, help="Changed: not where nothing is another than last time.",
)  # fmt: skip


def reporting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The four options of `schedule add`."""
    for option in (_WHEN, _FORMAT, _SEND, _PLAN):
        command = option(command)
    return command


def checked_reporting(
    plan: str | None, send: Sequence[str], report_format: str, send_when: str
) -> Reporting | None:
    """None where no report is asked for; `UsageError` for a plan that `report` would refuse, and
    targets that cannot be. Files are named from the folder in which the schedule is added."""
    if plan is None:
        if send:
            raise UsageError("--send needs --report PLAN: what is to be reported on")
        return None
    if not send:
        raise UsageError("--report needs --send TARGET: where the report goes")
    from advisor.render.sizing.formats import report_format as format_named
    from advisor.runs.delivery.targets import checked_words
    from advisor.runs.store.records import Reporting

    format_named(report_format).require_packages()
    _check_plan(plan)
    words = tuple(_whole_path(word) for word in checked_words(send))
    return Reporting(
        plan=plan, send=words, format=report_format, only_changes=send_when == "changed"
    )


def _check_plan(plan: str) -> None:
    from advisor.answers.ground import ground_in_use
    from advisor.answers.reporting.gathering import checked
    from advisor.answers.reporting.plans import read_plan
    from advisor.cli.report_run import planned

    try:
        content = Path(plan).read_bytes()
    except OSError as error:
        raise UsageError(f"--report {plan} cannot be read: {error.strerror}") from None
    questions = [planned(entry, plan) for entry in read_plan(content, plan).entries]
    checked(ground_in_use(None), questions)


def _whole_path(word: str) -> str:
    """A file from this folder, told so that the daemon's own folder does not matter."""
    kind, _, path = word.partition(":")
    if kind != "file" or path.startswith("/"):
        return word
    return f"file:{Path.cwd() / path}{'/' if path.endswith('/') else ''}"


@click.command("report", hidden=True)
@click.argument("number", type=int)
@click.option("--failed", default="", help="Why the run failed.")
def report_run(number: int, failed: str) -> None:
    """Report on a run that has ended: what its process starts. Prints what became of it."""
    from advisor.runs.scheduled_reports import report_after
    from advisor.runs.store.schedules import open_schedules

    with closing(open_schedules(reading=True)) as book:
        run = book.runs.one(number)
        kept = book.numbered(run.schedule) if run and run.schedule is not None else None
    if run is None or kept is None:
        raise UsageError(f"there is no run {number}")
    found = report_after(run, kept, lambda line: click.echo(line, err=True), failed)
    click.echo(json.dumps(found))
