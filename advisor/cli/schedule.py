"""`advisor schedule`: runs commands automatically at the times of a cron line."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path, PurePath
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from advisor.answers.context import load_context
from advisor.answers.reporting.reports import check_workloads
from advisor.cli.main import cli, handled_signals
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import output_option, question_from, question_options, typed_option
from advisor.cli.report import plan_report, planned_workloads
from advisor.errors import Stopped, UsageError
from advisor.files import system_errors
from advisor.messages import format_counted, format_span, format_usd
from advisor.questions.fields import Number
from advisor.questions.listings import Sources
from advisor.render.formats import report_format
from advisor.render.text import table
from advisor.runs import schedules
from advisor.runs.fitting import after_sweep
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import SweepRun
from advisor.store.records import Reporting

if TYPE_CHECKING:
    from advisor.store.records import Leader, Run, Schedule


def checked_reporting(question: ScheduleRequest) -> Reporting | None:
    """The report settings of a new schedule; None if it has no report. Raises `UsageError` for a plan that
    `report` would refuse and for invalid targets. File targets are relative to the current folder."""
    if question.report is None:
        if question.send:
            raise UsageError("--send needs --report PLAN: what is to be reported on", field="send")
        return None
    if not question.send:
        raise UsageError("--report needs --send TARGET: where the report goes", field="report")
    from advisor.runs.delivery.targets import checked_words

    report_format(question.report_format).require_packages()
    plan = str(question.report)
    with system_errors(UsageError, f"--report {plan} cannot be read", field="report"):
        content = Path(plan).read_bytes()
    check_workloads(load_context(None), planned_workloads(content, plan, Sources())[1])
    return Reporting(
        plan=plan,
        send=tuple(map(_whole_path, checked_words(question.send))),
        format=question.report_format,
        only_changes=question.send_when == "changed",
    )


def _whole_path(word: str) -> str:
    """A target with its file path made absolute, because the daemon runs in another folder."""
    kind, _, path = word.partition(":")
    if kind != "file" or path.startswith("/"):
        return word
    return f"file:{Path.cwd() / path}{'/' if path.endswith('/') else ''}"


# Options of a command that the schedule sets itself.
_OURS = {"output": "-o", "fresh_since": "--fresh-since", "dry_run": "--dry-run"}


def checked_command(words: Sequence[str]) -> schedules.Checked:
    """The command of a new schedule, after its options were parsed. Raises `UsageError` or a click error if
    they are invalid or the command cannot be scheduled."""
    if words and PurePath(words[0]).name == "advisor":
        words = words[1:]
    kind = schedules.kind_of(words)
    if kind is None:
        known = ", ".join(f"`{' '.join(allowed)}`" for allowed in schedules.ALLOWED)
        given = f"`{' '.join(words[:2])}` cannot be scheduled" if words else "no command is given"
        raise UsageError(given, hint=f"write one of {known} behind --; --report PLAN adds a report")
    command, rest = _click_command(kind), list(words[len(kind) :])
    context = command.make_context(f"advisor {' '.join(kind)}", rest)
    for name, option in _OURS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"leave {option} out: the schedule sets it")
    if not schedules.is_sweep(words):
        return schedules.Checked(tuple(words))
    return schedules.checked_sweep(words, question_from(SweepRun, context.params))


def _click_command(kind: Sequence[str]) -> click.Command:
    command: click.Command | None = cli
    for name in kind:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command


@click.group()
def schedule() -> None:
    """Run sweeps, fits and price refreshes at the times of a cron line.

    \b
    advisor schedule add --cron "0 3 * * 1" --timezone Europe/Berlin -- sweep run --preset small
    advisor schedule run     # the daemon; a second one waits until the first has ended
    """


@schedule.command()
@question_options(ScheduleRequest, "question")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def add(question: ScheduleRequest, command: tuple[str, ...]) -> None:
    """Add a schedule. Its command follows `--`, without `advisor`.

    \b
    advisor schedule add --cron "0 3 * * 1" -- sweep run --preset small

    Allowed are `sweep run`, `fit` and `catalog refresh`. The command is checked now."""
    from advisor.store.schedules import ScheduleBook

    now, reporting = time.time(), checked_reporting(question)
    new, due = schedules.new_schedule(question, checked_command(command), str(Path.cwd()), now, reporting)
    with closing(ScheduleBook()) as book:
        kept, leader = book.add(new, now=now), book.leader()
    said = "Added" if kept.created_at == now else "Already there:"
    click.echo(
        f"{said} '{kept.name}': first {_moment(due.timestamp(), kept)}, then by '{kept.cron}'.\n"
        f"  advisor {shlex.join(kept.command)}\n{_daemon_text(leader)}"
    )


@schedule.command("list")
@output_option
def list_(output: str) -> None:
    """List schedules: next run, result of the last run, cost of this month."""
    from advisor.store.schedules import ScheduleBook

    now = time.time()
    with closing(ScheduleBook(reading=True)) as book:
        rows = [schedules.status_of(book, kept, now) for kept in book.all()]
        leader = book.leader()
        document = schedules.list_document(book.name, rows, leader, now)
    print_answer(output, document, lambda: list_text(rows, leader))


@schedule.command()
@click.argument("name")
@typed_option(
    Number(whole=True, most=1000), "--runs", "most", default=10, help="Number of latest runs to show."
)
@output_option
def show(name: str, most: int, output: str) -> None:
    """Show one schedule: its runs, their costs, the fits after them and drift."""
    from advisor.store.schedules import ScheduleBook

    now = time.time()
    with closing(ScheduleBook(reading=True)) as book:
        kept = book.named(name)
        status = schedules.status_of(book, kept, now)
        runs = book.runs.latest(kept.number, most)
    print_answer(output, schedules.one_document(status, runs, now), lambda: schedule_text(status, runs))


@schedule.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a schedule. A current run finishes, and the history stays."""
    from advisor.store.schedules import ScheduleBook

    with closing(ScheduleBook()) as book:
        gone = book.remove(name, now=time.time())
        goes_on = book.running(gone.number)
    click.echo(f"Removed '{name}'{'; its current run ends by itself' if goes_on else ''}.")


@schedule.command()
def run() -> None:
    """The daemon: runs what is due, until Ctrl-C or SIGTERM.

    One at a time serves a database; a second one waits, and goes on when the first has gone."""
    from advisor.runs.daemon import PATIENCE_SECONDS, Daemon
    from advisor.store.schedules import ScheduleBook

    with closing(ScheduleBook(patience_seconds=PATIENCE_SECONDS)) as book:
        daemon, stopping = Daemon(book, say=_say), _Stopping()
        with handled_signals(stopping):
            _say(f"watching the schedules in '{book.name}'; Ctrl-C ends this")
            try:
                daemon.serve(stopping.event)
            finally:
                ended = daemon.leave()
    kept = f"; the next one continues {format_counted(len(ended), 'run')}" if ended else ""
    raise Stopped(f"the daemon has ended{kept}", exit_code=128 + stopping.number)


@schedule.command(hidden=True)
@click.argument("number", type=int)
def execute(number: int) -> None:
    """Execute the run of that number: what the daemon and the HTTP service start."""
    from advisor.runs.jobs import execute as executed
    from advisor.runs.scheduled_reports import report_after
    from advisor.store.schedules import ScheduleBook

    def report(kept: Schedule, failed: str) -> dict[str, Any]:
        os.chdir(kept.folder)  # paths of the plan and in it are relative to this
        return report_after(kept, plan_report, tell, failed)

    with closing(ScheduleBook()) as book:
        executed(book, number, follow=lambda run: after_sweep(run.due_at), report=report)


class _Stopping:
    """A signal handler: the first signal ends the daemon after its current step, the next one at once. Then
    its runs continue, because they have their own sessions and are recorded in the database."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.number = int(signal.SIGINT)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.event.is_set():
            os._exit(128 + number)
        self.number = number
        self.event.set()


def _say(line: str) -> None:
    print(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}", file=sys.stderr, flush=True)


_COLUMNS = ("name", "next", "last run", "this month", "command")
_MOST_TRIALS = 5


def _daemon_text(leader: Leader | None) -> str:
    if leader is None:
        return "No daemon runs: start one with `advisor schedule run`."
    return f"The daemon on {leader.host} (process {leader.pid}) runs them."


def list_text(statuses: Sequence[schedules.Status], leader: Leader | None) -> str:
    """The text of `schedule list`: a line for each schedule, and which daemon runs them."""
    if not statuses:
        return "No schedules yet; see `advisor schedule add --help`."
    return "\n".join([*table(_COLUMNS, [_row(status) for status in statuses]), "", _daemon_text(leader)])


def _row(status: schedules.Status) -> tuple[str, ...]:
    kept, last = status.schedule, status.last
    state = f"{_moment(last.due_at, kept)} {last.state.value}" if last else "none yet"
    due = _moment(status.next_due.timestamp(), kept) if status.next_due else "never"
    budget = "" if kept.budget_usd is None else f" of {format_usd(kept.budget_usd)}"
    return kept.name, due, state, f"{format_usd(status.spent_usd)}{budget}", shlex.join(kept.command)


def schedule_text(status: schedules.Status, runs: Sequence[Run]) -> str:
    """The text of `schedule show`: the schedule, then its runs and their reports, latest first."""
    kept = status.schedule
    lines = [
        *table(_COLUMNS, [_row(status)]),
        f"'{kept.cron}' in {kept.timezone}, misfire {kept.misfire.value}, in {kept.folder}",
    ]
    if (reporting := kept.reporting) is not None:
        from advisor.runs.delivery.targets import target_label

        to = ", ".join(map(target_label, reporting.send))
        changed = " if anything changed" if reporting.only_changes else ""
        lines.append(f"report {reporting.plan} as {reporting.format}, to {to}{changed}")
    lines += ["", *([] if runs else ["No runs yet."])]
    return "\n".join([*lines, *(line for run in runs for line in _run_lines(run, kept))])


def _run_lines(run: Run, kept: Schedule) -> list[str]:
    facts = [
        run.state.value,
        "" if run.trials is None else f"{run.trials} measured",
        format_span((run.ended_at - run.begun_at) / 3600) if run.begun_at and run.ended_at else "",
        "" if run.cost_usd is None else format_usd(run.cost_usd),
        f"on {run.host}" if run.host else "",
    ]
    said = [run.note, *report_lines(run.report), run.log and f"log {run.log}"]
    return [f"{_moment(run.due_at, kept)}  {', '.join(filter(None, facts))}", *(f"  {x}" for x in said if x)]


def _moment(seconds: float, kept: Schedule) -> str:
    return datetime.fromtimestamp(seconds, schedules.zone_of(kept.timezone)).strftime("%a %Y-%m-%d %H:%M %Z")


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Lines on the model that was kept, on drift, and on the sizing report after a run."""
    lines = []
    if fit := report.get("fit"):
        lines.append(f"kept the {fit['kept']} model: {fit['why']}")
    if drift := report.get("drift"):
        lines.append(f"drift: {drift['beyond_interval']} of {drift['compared']} rates beyond their interval")
        lines += [f"changed: {', '.join(drift['changed'])}"] if drift["changed"] else []
        lines += [
            f"{shift['change_percent']:+.1f} %  {shift['trial']}" for shift in drift["trials"][:_MOST_TRIALS]
        ]
    if sizing := report.get("sizing_report"):
        lines.append(sizing["error"] or sizing["headline"] or "the first report; nothing to compare it with")
        lines += [f"{sent['state']}: {sent['error'] or sent['target']}" for sent in sizing["deliveries"]]
    return lines
