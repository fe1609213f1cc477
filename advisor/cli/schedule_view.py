"""Schedules and their runs, as a table and as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from advisor.render.text import table
from advisor.runs.schedules import Status, zone_of
from advisor.units import format_hours, format_rate, format_usd

if TYPE_CHECKING:
    from advisor.store.records import Leader, Reporting, Run, Schedule


_COLUMNS = ("name", "next", "last run", "this month", "command")
_NOBODY = "No daemon runs: start one with `advisor schedule run`."


def added_text(kept: Schedule, due: datetime, leader: Leader | None) -> str:
    """The new schedule, its first due time, and whether a daemon will run it."""
    who = f"The daemon on {leader.host} (process {leader.pid}) runs it." if leader else _NOBODY
    return (
        f"Added '{kept.name}': {_local(due, kept.timezone)}, and so on.\n"
        f"  advisor {shlex.join(kept.command)}\n{who}"
    )


def list_text(statuses: Sequence[Status], leader: Leader | None) -> str:
    """A line for each schedule, and who leads."""
    if not statuses:
        return "No schedules yet; see `advisor schedule add --help`."
    rows = [_row(status) for status in statuses]
    who = f"Served by the daemon on {leader.host} (process {leader.pid})." if leader else _NOBODY
    words = ((status.schedule.name, report_words(status.report)) for status in statuses)
    drifted = [f"{name}: {text}" for name, text in words if text]
    return "\n".join([*table(_COLUMNS, rows), "", *drifted, who])


def schedule_text(status: Status, runs: Sequence[Run]) -> str:
    """A schedule and its runs, the latest first, with what followed each."""
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
    """Nothing of a target that may be a secret."""
    if reporting is None:
        return []
    from advisor.runs.delivery.targets import target_label

    when = " where anything changed" if reporting.only_changes else ""
    to = ", ".join(target_label(word) for word in reporting.send)
    return [f"  report      {reporting.plan} as {reporting.format}, to {to}{when}"]


def _row(status: Status) -> tuple[str, ...]:
    schedule, last = status.schedule, status.last
    state = "none yet" if last is None else f"{_day(last.due_at, schedule.timezone)} {last.state.value}"
    command = shlex.join(schedule.command)
    return (schedule.name, _next(status), state, _money(status), command)


def _money(status: Status) -> str:
    budget = status.schedule.budget_usd
    of = "" if budget is None else f" of {format_usd(budget)}"
    return f"{format_usd(status.spent_usd)}{of}"


def _next(status: Status) -> str:
    if status.next_due is None:
        return "never"
    return _local(status.next_due, status.schedule.timezone)


def _run_lines(run: Run, timezone: str) -> list[str]:
    took = None if run.begun_at is None or run.ended_at is None else run.ended_at - run.begun_at
    facts = [
        run.state.value,
        "" if run.trials is None else f"{run.trials} measured",
        "" if took is None else format_hours(max(0.0, took) / 3600),
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
    return moment.astimezone(zone_of(timezone)).strftime("%a %Y-%m-%d %H:%M %Z")


def _day(seconds: float, timezone: str) -> str:
    moment = datetime.fromtimestamp(seconds, zone_of(timezone))
    return moment.strftime("%Y-%m-%d %H:%M")


_MOST_TRIALS = 5


def report_words(report: Mapping[str, Any]) -> str:
    """The one thing that a list should say: rates that drifted; empty where none did."""
    drift = report.get("drift") or {}
    beyond = drift.get("beyond_interval", 0)
    if not beyond:
        return ""
    why = f" ({', '.join(drift['changed'][:2])})" if drift.get("changed") else ""
    return f"{beyond} of {drift['compared']} rates drifted beyond their interval{why}"


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """All of it, a line each."""
    return [
        *_fit_lines(report.get("fit") or {}),
        *_drift_lines(report.get("drift") or {}),
        *_sizing_lines(report.get("sizing_report") or {}),
    ]


_STATES = {
    "arrived": "sent to {target}",
    "kept": "kept, to be tried again: {error}",
    "failed": "not sent: {error}",
}


def _sizing_lines(sizing: Mapping[str, Any]) -> list[str]:
    if not sizing:
        return []
    if sizing["error"]:
        return [f"no report: {sizing['error']}"]
    lines = [sizing["headline"] or "the first report; there is nothing to compare it with"]
    deliveries = (f"  {_STATES[delivery['state']].format(**delivery)}" for delivery in sizing["deliveries"])
    return [*lines, *deliveries]


def _fit_lines(fit: Mapping[str, Any]) -> list[str]:
    if not fit:
        return []
    name = fit.get("new_model") if fit["kept"] == "new" else fit.get("last_model")
    kept = f"model {name} ({fit['kept']})" if name else f"the {fit['kept']} model"
    return [f"kept {kept}: {fit['why']}"]


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
