"""Schedules and their runs as JSON documents, and the status of each schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.runs.cron import CronLine, zone_of
from advisor.runs.due import month_of, spent_usd
from advisor.store.records import Leader, Reporting, Run, Schedule

if TYPE_CHECKING:  # it loads SQLAlchemy
    from advisor.store.schedules import ScheduleBook

LIST, ONE = "advisor.schedules/1", "advisor.schedule/1"


class Status(Struct, frozen=True):
    """A schedule, when it is due next, its last run, the last report on a sweep of it, and what
    it has spent this month."""

    schedule: Schedule
    next_due: datetime | None
    last: Run | None
    report: Mapping[str, Any]
    month: str
    spent_usd: float


def statuses(book: ScheduleBook, schedules: Sequence[Schedule], now: float) -> list[Status]:
    """How each of them stands now (seconds since 1970)."""
    rows = []
    for schedule in schedules:
        zone = zone_of(schedule.timezone)
        moment = datetime.fromtimestamp(now, UTC)
        month = book.runs.between(schedule.number, *month_of(schedule.timezone, now))
        latest = book.runs.of(schedule.number)
        rows.append(
            Status(
                schedule=schedule,
                next_due=CronLine(schedule.cron, schedule.timezone).after(moment),
                last=next(iter(latest), None),
                report=next((run.report for run in latest if run.report), {}),
                month=moment.astimezone(zone).strftime("%Y-%m"),
                spent_usd=spent_usd(schedule, month, now),
            )
        )
    return rows


def list_document(database: str, rows: Sequence[Status], leader: Leader | None, now: float) -> dict[str, Any]:
    """`advisor.schedules/1`."""
    return {
        "schema": LIST,
        "at": _iso(now),
        "database": database,
        # No lease: the daemon's lock ends with its process.
        "leader": None
        if leader is None
        else {"host": leader.host, "pid": leader.pid, "lease_seconds_left": None},
        "schedules": [
            {**_schedule_document(row), "last_run": run_document(row.last) if row.last else None}
            for row in rows
        ],
    }


def one_document(status: Status, runs: Sequence[Run], now: float) -> dict[str, Any]:
    """`advisor.schedule/1`."""
    return {
        "schema": ONE,
        "at": _iso(now),
        "schedule": _schedule_document(status),
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
        "sizing_report": run.report.get("sizing_report"),
    }


def _schedule_document(status: Status) -> dict[str, Any]:
    schedule = status.schedule
    left = None if schedule.budget_usd is None else round(schedule.budget_usd - status.spent_usd, 6)
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "command": list(schedule.command),
        "folder": schedule.folder,
        "misfire": schedule.misfire.value,
        "reporting": _reporting_document(schedule.reporting),
        "added_at": _iso(schedule.created_at),
        "next_due": status.next_due.isoformat() if status.next_due else None,
        "budget_usd_per_month": schedule.budget_usd,
        "month": status.month,
        "spent_usd": round(status.spent_usd, 6),
        "left_usd": left,
    }


def _reporting_document(reporting: Reporting | None) -> dict[str, Any] | None:
    """Of its targets only what is no secret."""
    if reporting is None:
        return None
    from advisor.runs.delivery.targets import target_label

    return {
        "plan": reporting.plan,
        "format": reporting.format,
        "only_changes": reporting.only_changes,
        "send": [target_label(word) for word in reporting.send],
    }


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
