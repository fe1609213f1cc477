"""`advisor schedule`: runs commands automatically at the times of a cron line."""

from __future__ import annotations

import json
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
from advisor.cli.leaving import handled_signals
from advisor.cli.main import cli
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import output_option, question_from, question_options, typed_option
from advisor.cli.report import plan_report, planned_workloads
from advisor.errors import Stopped, UsageError, system_errors
from advisor.questions.fields import Number
from advisor.questions.listings import Sources
from advisor.render.formats import report_format
from advisor.render.text import table
from advisor.runs import schedules
from advisor.runs.fitting import after_sweep
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import SweepRun
from advisor.store.records import Reporting
from advisor.units import format_rate, format_span, format_usd

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
    _check_plan(plan)
    return Reporting(
        plan=plan,
        send=tuple(map(_whole_path, checked_words(question.send))),
        format=question.report_format,
        only_changes=question.send_when == "changed",
    )


def _check_plan(plan: str) -> None:
    with system_errors(UsageError, f"--report {plan} cannot be read", field="report"):
        content = Path(plan).read_bytes()
    _, workloads = planned_workloads(content, plan, Sources())
    check_workloads(load_context(None), workloads)


def _whole_path(word: str) -> str:
    """A target with its file path made absolute, because the daemon runs in another folder."""
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
    from advisor.store.schedules import ScheduleBook

    with closing(ScheduleBook(reading=True)) as book:
        run = book.runs.numbered(number)
        kept = book.numbered(run.schedule) if run and run.schedule is not None else None
    if run is None or kept is None:
        raise UsageError(f"there is no run {number}")
    os.chdir(kept.folder)  # paths of the plan and in it are relative to this
    report = report_after(kept, plan_report, tell, failed)
    click.echo(json.dumps(report))


# Options that the schedule sets itself -> the text of the error.
_OURS = {
    "output": "leave -o out: the schedule reads the command's JSON, and `schedule show` tells it",
    "fresh_since": "leave --fresh-since out: the schedule sets it to each run's due time",
    "dry_run": "leave --dry-run out: nothing would be measured",
}


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
    for name, reason in _OURS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(reason)
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

    Allowed are `sweep run`, `fit` and `catalog refresh`. The command is checked now."""
    from advisor.store.schedules import ScheduleBook

    now, reporting = time.time(), checked_reporting(question)
    new, due = schedules.new_schedule(question, checked_command(command), str(Path.cwd()), now, reporting)
    with closing(ScheduleBook()) as book:
        kept, leader = book.add(new, now=now), book.leader()
    click.echo(added_text(kept, due, leader))


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
    click.echo(f"Removed '{name}'{'; the run that goes on comes to its end' if goes_on else ''}.")


@schedule.command()
def run() -> None:
    """The daemon: runs what is due, until Ctrl-C or SIGTERM.

    One at a time serves a database; a second one waits, and goes on when the first has gone."""
    from advisor.runs.daemon import PATIENCE_SECONDS, Daemon
    from advisor.runs.delivery.sending import resend_until
    from advisor.store.schedules import ScheduleBook

    with closing(ScheduleBook(patience_seconds=PATIENCE_SECONDS)) as book:
        daemon, stopping = Daemon(book, say=_say), _Stopping()
        with handled_signals(stopping):
            _say(f"watching the schedules in '{book.name}'; Ctrl-C ends this")
            threading.Thread(target=resend_until, args=(stopping.event, _say), daemon=True).start()
            try:
                daemon.serve(stopping.event)
            finally:
                ended = daemon.leave()
    ended_words = "1 run is" if len(ended) == 1 else f"{len(ended)} runs are"
    kept = f"; {ended_words} gone on with by the next daemon" if ended else ""
    raise Stopped(f"the daemon has ended{kept}", exit_code=128 + stopping.number)


@schedule.command(hidden=True)
@click.argument("number", type=int)
def execute(number: int) -> None:
    """Execute the run of that number: what the daemon and the HTTP service start."""
    from advisor.runs.jobs import execute as executed
    from advisor.runs.scheduled_reports import report_in_process
    from advisor.store.schedules import ScheduleBook

    with closing(ScheduleBook()) as book:
        executed(book, number, follow=lambda run: after_sweep(run.due_at), report=report_in_process)


schedule.add_command(report_run)


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
    when = datetime.now(UTC).isoformat(timespec="seconds")
    print(f"{when} {line}", file=sys.stderr, flush=True)


_COLUMNS = ("name", "next", "last run", "this month", "command")
_NOBODY = "No daemon runs: start one with `advisor schedule run`."


def added_text(kept: Schedule, due: datetime, leader: Leader | None) -> str:
    """The text of `schedule add`: the schedule, its first due time, and whether a daemon will run it."""
    who = f"The daemon on {leader.host} (process {leader.pid}) runs it." if leader else _NOBODY
    command = f"  command     advisor {shlex.join(kept.command)}"
    first = f"Added '{kept.name}': first {_local(due, kept.timezone)}, then by '{kept.cron}'."
    return "\n".join([first, command, *_reporting_lines(kept.reporting), who])


def list_text(statuses: Sequence[schedules.Status], leader: Leader | None) -> str:
    """The text of `schedule list`: a line for each schedule, and which daemon runs them."""
    if not statuses:
        return "No schedules yet; see `advisor schedule add --help`."
    lines = table(_COLUMNS, [_row(status) for status in statuses])
    for status in statuses:
        lines += [
            f"{status.schedule.name}: {' '.join(line.split())}"
            for line in _reporting_lines(status.schedule.reporting)
        ]
    who = f"Served by the daemon on {leader.host} (process {leader.pid})." if leader else _NOBODY
    words = ((status.schedule.name, report_words(status.report)) for status in statuses)
    drifted = [f"{name}: {text}" for name, text in words if text]
    return "\n".join([*lines, "", *drifted, who])


def schedule_text(status: schedules.Status, runs: Sequence[Run]) -> str:
    """The text of `schedule show`: the schedule, then its runs and their reports, latest first."""
    schedule = status.schedule
    lines = [
        f"{schedule.name}: '{schedule.cron}' in {schedule.timezone}, next {_next(status)}",
        f"  command     advisor {shlex.join(schedule.command)}",
        f"  folder      {schedule.folder}",
        f"  misfire     {schedule.misfire.value}",
        *_reporting_lines(schedule.reporting),
        f"  this month  {_money(status)}",
        "",
    ]
    if not runs:
        return "\n".join([*lines, "No runs yet."])
    for run in runs:
        lines += _run_lines(run, schedule.timezone)
    return "\n".join(lines)


def _reporting_lines(reporting: Reporting | None) -> list[str]:
    """A line on where reports are sent, without any secrets in the targets; empty without reports."""
    if reporting is None:
        return []
    from advisor.runs.delivery.targets import target_label

    when = " if anything changed" if reporting.only_changes else ""
    to = ", ".join(target_label(word) for word in reporting.send)
    return [f"  report      {reporting.plan} as {reporting.format}, to {to}{when}"]


def _row(status: schedules.Status) -> tuple[str, ...]:
    schedule, last = status.schedule, status.last
    state = "none yet" if last is None else f"{_day(last.due_at, schedule.timezone)} {last.state.value}"
    command = shlex.join(schedule.command)
    return (schedule.name, _next(status), state, _money(status), command)


def _money(status: schedules.Status) -> str:
    budget = status.schedule.budget_usd
    of = "" if budget is None else f" of {format_usd(budget)}"
    return f"{format_usd(status.spent_usd)}{of}"


def _next(status: schedules.Status) -> str:
    if status.next_due is None:
        return "never"
    return _local(status.next_due, status.schedule.timezone)


def _run_lines(run: Run, timezone: str) -> list[str]:
    took = None if run.begun_at is None or run.ended_at is None else run.ended_at - run.begun_at
    facts = [
        run.state.value,
        "" if run.trials is None else f"{run.trials} measured",
        "" if took is None else format_span(max(0.0, took) / 3600),
        "" if run.cost_usd is None else format_usd(run.cost_usd),
        f"{run.attempts} attempts" if run.attempts > 1 else "",
        f"on {run.host}" if run.host else "",
    ]
    lines = [f"{_day(run.due_at, timezone)}  {', '.join(filter(None, facts))}"]
    lines += [f"  {run.note}"] if run.note else []
    lines += [f"  {line}" for line in report_lines(run.report)]
    lines += [f"  log {run.log}"] if run.log else []
    return lines


def _local(moment: datetime, timezone: str) -> str:
    return moment.astimezone(schedules.zone_of(timezone)).strftime("%a %Y-%m-%d %H:%M %Z")


def _day(seconds: float, timezone: str) -> str:
    moment = datetime.fromtimestamp(seconds, schedules.zone_of(timezone))
    return moment.strftime("%Y-%m-%d %H:%M")


_MOST_TRIALS = 5


def report_words(report: Mapping[str, Any]) -> str:
    """How many rates drifted beyond their interval, for the list; empty if none did."""
    drift = report.get("drift") or {}
    beyond = drift.get("beyond_interval", 0)
    if not beyond:
        return ""
    why = f" ({', '.join(drift['changed'][:2])})" if drift.get("changed") else ""
    return f"{beyond} of {drift['compared']} rates drifted beyond their interval{why}"


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Lines on the model that was kept, on drift, and on the sizing report after a run."""
    lines = []
    if fit := report.get("fit"):
        name = fit.get("new_model") if fit["kept"] == "new" else fit.get("last_model")
        kept = f"model {name} ({fit['kept']})" if name else f"the {fit['kept']} model"
        lines.append(f"kept {kept}: {fit['why']}")
    lines += _drift_lines(report.get("drift") or {})
    if sizing := report.get("sizing_report"):
        compared = sizing["headline"] or "the first report; there is nothing to compare it with"
        deliveries = (f"  {_STATES[sent['state']].format(**sent)}" for sent in sizing["deliveries"])
        lines += [f"no report: {sizing['error']}"] if sizing["error"] else [compared, *deliveries]
    return lines


_STATES = {
    "arrived": "sent to {target}",
    "kept": "kept, to be tried again: {error}",
    "failed": "not sent: {error}",
}


def _drift_lines(drift: Mapping[str, Any]) -> list[str]:
    if not drift:
        return []
    if not drift["compared"]:
        return ["drift: no earlier measurement of these trials"]
    median = drift["median_change_percent"]
    lines = [
        f"drift: {drift['beyond_interval']} of {drift['compared']} rates beyond their interval; "
        f"all together {median:+.1f} % (median)"
    ]
    if model := drift.get("last_model"):
        lines.append(
            f"{model['outside']} of {model['rows']} outside of the last model's interval "
            f"({model['expected']:g} by chance)"
        )
    lines += [f"changed: {', '.join(drift['changed'])}"] if drift["changed"] else []
    for shift in drift["trials"][:_MOST_TRIALS]:
        before, now = format_rate(shift["before"]["rate"]), format_rate(shift["now"]["rate"])
        lines.append(f"  {shift['change_percent']:+.1f} %  {before} -> {now}/s  {shift['trial']}")
    return lines
