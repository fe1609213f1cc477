"""Schedules and their runs, as a table, as text and as JSON documents."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from advisor.cli.schedule_report import report_lines, report_words
from advisor.operations.scheduling.zones import zone_of
from advisor.report.text import table
from advisor.units import format_hours, format_usd

if TYPE_CHECKING:
    from sweeps.store.schedule_book import ScheduleBook
    from sweeps.store.schedule_words import Leader, Run, Schedule

LIST, ONE = "advisor.schedules/1", "advisor.schedule/1"
_COLUMNS = ("name", "next", "last run", "this month", "command")
_NOBODY = "No daemon leads: start one with `advisor schedule run`."


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule, when it is due next, its last run, the last report on a sweep of it, and what
    it has spent this month."""

    schedule: Schedule
    next_due: datetime | None
    last: Run | None
    report: Mapping[str, Any]
    month: str
    spent_usd: float


def standings(book: ScheduleBook, schedules: Sequence[Schedule], now: float) -> list[Standing]:
    """How each of them stands now (seconds since 1970)."""
    from advisor.operations.scheduling.crontab import Crontab
    from advisor.operations.scheduling.deciding import month_of, spent_usd

    found = []
    for one in schedules:
        zone = zone_of(one.timezone)
        moment = datetime.fromtimestamp(now, UTC)
        month = book.runs.between(one.number, *month_of(one.timezone, now))
        latest = book.runs.of(one.number)
        found.append(
            Standing(
                schedule=one,
                next_due=Crontab(one.cron, one.timezone).after(moment),
                last=next(iter(latest), None),
                report=next((run.report for run in latest if run.report), {}),
                month=moment.astimezone(zone).strftime("%Y-%m"),
                spent_usd=spent_usd(one, month, now),
            )
        )
    return found


def added_text(kept: Schedule, due: datetime, leader: Leader | None) -> str:
    """What was kept, when it is due first, and whether anybody will run it."""
    who = f"The daemon on {leader.host} (process {leader.pid}) runs it." if leader else _NOBODY
    return (
        f"Added '{kept.name}': {_local(due, kept.timezone)}, and so on.\n"
        f"  advisor {shlex.join(kept.command)}\n{who}"
    )


def list_text(found: Sequence[Standing], leader: Leader | None) -> str:
    """A line for each schedule, and who leads."""
    if not found:
        return "No schedules yet; `advisor schedule add -h` tells how."
    rows = [_row(one) for one in found]
    who = f"Led by {leader.host} (process {leader.pid})." if leader else _NOBODY
    drifted = [_drift_line(one) for one in found]
    return "\n".join([*table(_COLUMNS, rows), "", *filter(None, drifted), who])


def one_text(found: Standing, runs: Sequence[Run]) -> str:
    """A schedule and its runs, the latest first, with what followed each."""
    one = found.schedule
    lines = [
        f"{one.name}: '{one.cron}' in {one.timezone}, next {_next(found)}",
        f"  command     advisor {shlex.join(one.command)}",
        f"  folder      {one.folder}",
        f"  misfire     {one.misfire.value}",
        f"  this month  {_money(found)}",
        "",
    ]
    if not runs:
        return "\n".join([*lines, "No runs yet."])
    for run in runs:
        lines += _run_lines(run, one.timezone)
    return "\n".join(lines)


def list_document(
    database: str, found: Sequence[Standing], leader: Leader | None, now: float
) -> dict[str, Any]:
    """`advisor.schedules/1`."""
    return {
        "schema": LIST,
        "at": _iso(now),
        "database": database,
        "leader": None if leader is None else {
            "host": leader.host, "pid": leader.pid,
            "lease_seconds_left": round(leader.seconds_left, 3),
        },
        "schedules": [
            {**_schedule_document(one), "last_run": run_document(one.last) if one.last else None}
            for one in found
        ],
    }  # fmt: skip


def one_document(found: Standing, runs: Sequence[Run], now: float) -> dict[str, Any]:
    """`advisor.schedule/1`."""
    return {
        "schema": ONE,
        "at": _iso(now),
        "schedule": _schedule_document(found),
        "runs": [run_document(run) for run in runs],
    }


def run_document(run: Run) -> dict[str, Any]:
    """One run; `fit` and `drift` are null where no sweep measured anything."""
    return {
        "number": run.number,
        "due_at": _iso(run.due_at),
        "state": run.state.value,
        "note": run.note,
        "attempts": run.attempts,
        "host": run.host or None,
        "pid": run.pid,
        "begun_at": _iso(run.begun_at),
        "ended_at": _iso(run.ended_at),
        "exit_code": run.exit_code,
        "cost_usd": run.cost_usd,
        "trials": run.trials,
        "log": run.log or None,
        "fit": run.report.get("fit"),
        "drift": run.report.get("drift"),
    }


def _schedule_document(found: Standing) -> dict[str, Any]:
    one = found.schedule
    left = None if one.budget_usd is None else round(one.budget_usd - found.spent_usd, 6)
    return {
        "name": one.name,
        "cron": one.cron,
        "timezone": one.timezone,
        "command": list(one.command),
        "folder": one.folder,
        "misfire": one.misfire.value,
        "added_at": _iso(one.created_at),
        "next_due": found.next_due.isoformat() if found.next_due else None,
        "budget_usd_per_month": one.budget_usd,
        "month": found.month,
        "spent_usd": round(found.spent_usd, 6),
        "left_usd": left,
    }


def _row(found: Standing) -> tuple[str, ...]:
    one, last = found.schedule, found.last
    state = "none yet" if last is None else f"{_day(last.due_at, one.timezone)} {last.state.value}"
    words = shlex.join(one.command)
    return (one.name, _next(found), state, _money(found), words)


def _drift_line(found: Standing) -> str:
    words = report_words(found.report)
    return f"{found.schedule.name}: {words}" if words else ""


def _money(found: Standing) -> str:
    budget = found.schedule.budget_usd
    of = "" if budget is None else f" of {format_usd(budget)}"
    return f"{format_usd(found.spent_usd)}{of}"


def _next(found: Standing) -> str:
    if found.next_due is None:
        return "never"
    return _local(found.next_due, found.schedule.timezone)


def _run_lines(run: Run, timezone: str) -> list[str]:
    facts = [
        run.state.value,
        "" if run.trials is None else f"{run.trials} measured",
        _took(run),
        "" if run.cost_usd is None else format_usd(run.cost_usd),
        f"{run.attempts} attempts" if run.attempts > 1 else "",
        f"on {run.host}" if run.host else "",
    ]
    lines = [f"{_day(run.due_at, timezone)}  {', '.join(filter(None, facts))}"]
    lines += [f"  {run.note}"] if run.note else []
    lines += [f"  {line}" for line in report_lines(run.report)]
    lines += [f"  log {run.log}"] if run.log else []
    return lines


def _took(run: Run) -> str:
    if run.begun_at is None or run.ended_at is None:
        return ""
    return format_hours(max(0.0, run.ended_at - run.begun_at) / 3600)


def _local(moment: datetime, timezone: str) -> str:
    return moment.astimezone(zone_of(timezone)).strftime("%a %Y-%m-%d %H:%M %Z")


def _day(seconds: float, timezone: str) -> str:
    moment = datetime.fromtimestamp(seconds, zone_of(timezone))
    return moment.strftime("%Y-%m-%d %H:%M")


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
