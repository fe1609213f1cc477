"""A schedule that is to be kept: its name, its times, its command and its money, checked; and schedules with
their runs as documents.

Its sweep is checked as the command itself would check it, when the schedule is added."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.domain import Trial
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.fields import wrong
from advisor.runs.cron import CronLine, month_of, spent_usd, zone_of
from advisor.runs.fields import parse_budget
from advisor.runs.processes import ADVISOR
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import SweepRun
from advisor.runs.sweeps.data import plan_anywhere
from advisor.runs.sweeps.sweeping import host_usd_per_hour
from advisor.store.records import Leader, Misfire, NewSchedule, Reporting, Run, Schedule

if TYPE_CHECKING:
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
    moment = datetime.fromtimestamp(now, UTC)
    rows = []
    for schedule in schedules:
        month = book.runs.between(schedule.number, *month_of(schedule.timezone, now))
        latest = book.runs.of(schedule.number)
        rows.append(
            Status(
                schedule=schedule,
                next_due=CronLine(schedule.cron, schedule.timezone).after(moment),
                last=next(iter(latest), None),
                report=next((run.report for run in latest if run.report), {}),
                month=moment.astimezone(zone_of(schedule.timezone)).strftime("%Y-%m"),
                spent_usd=spent_usd(schedule, month, now),
            )
        )
    return rows


def list_document(database: str, rows: Sequence[Status], leader: Leader | None, now: float) -> dict[str, Any]:
    """`advisor.schedules/1`."""
    # No lease: the daemon's lock ends with its process.
    led = {"host": leader.host, "pid": leader.pid, "lease_seconds_left": None} if leader else None
    documents = [
        {**_schedule_document(row), "last_run": run_document(row.last) if row.last else None} for row in rows
    ]
    return {"schema": LIST, "at": iso_text(now), "database": database, "leader": led, "schedules": documents}


def one_document(status: Status, runs: Sequence[Run], now: float) -> dict[str, Any]:
    """`advisor.schedule/1`."""
    return {
        "schema": ONE,
        "at": iso_text(now),
        "schedule": _schedule_document(status),
        "runs": [run_document(run) for run in runs],
    }


def run_document(run: Run) -> dict[str, Any]:
    """One run; `fit` and `drift` are null where no sweep measured anything."""
    return {
        "number": run.number,
        "due_at": iso_text(run.due_at),
        "state": run.state.value,
        "note": run.note,
        "attempts": run.attempts,
        "host": run.host or None,
        "pid": run.pid,
        "begun_at": iso_text(run.begun_at),
        "ended_at": iso_text(run.ended_at),
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
    budget = schedule.budget_usd
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "command": list(schedule.command),
        "folder": schedule.folder,
        "misfire": schedule.misfire.value,
        "reporting": _reporting_document(schedule.reporting) if schedule.reporting else None,
        "added_at": iso_text(schedule.created_at),
        "next_due": status.next_due.isoformat() if status.next_due else None,
        "budget_usd_per_month": budget,
        "month": status.month,
        "spent_usd": round(status.spent_usd, 6),
        "left_usd": None if budget is None else round(budget - status.spent_usd, 6),
    }


def _reporting_document(reporting: Reporting) -> dict[str, Any]:
    """Of its targets only what is no secret."""
    from advisor.runs.delivery.targets import target_label

    send = [target_label(word) for word in reporting.send]
    return {
        "plan": reporting.plan,
        "format": reporting.format,
        "only_changes": reporting.only_changes,
        "send": send,
    }


def iso_text(seconds: float | None, timespec: str = "seconds") -> str | None:
    """A moment in seconds since 1970 as ISO 8601 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec)


# What may be scheduled, by its first words; everything else is refused.
ALLOWED = (("sweep", "run"), ("fit",), ("catalog", "refresh"))
# With one of these a sweep measures on other machines, and leaves this one's quiet.
_ELSEWHERE = {"--ray-address", "--on"}


def kind_of(command: Sequence[str]) -> tuple[str, ...] | None:
    """The allowed command that these words begin with; None where they begin with none."""
    return next((words for words in ALLOWED if tuple(command[: len(words)]) == words), None)


def is_sweep(command: Sequence[str]) -> bool:
    """Whether it measures."""
    return kind_of(command) == ("sweep", "run")


def works_elsewhere(command: Sequence[str]) -> bool:
    """Whether other runs may go on beside it: two on one machine would measure each other."""
    return is_sweep(command) and not _ELSEWHERE.isdisjoint(word.partition("=")[0] for word in command)


def started_as(command: Sequence[str], due_at: float) -> list[str]:
    """The whole command line of a run, with a JSON document on its stdout. A sweep measures anew what is
    older than its due time (seconds since 1970): what an attempt that was cut off has measured since then is
    not measured again."""
    since = datetime.fromtimestamp(due_at, UTC).isoformat()
    fresh = ["--fresh-since", since] if is_sweep(command) else []
    return [*ADVISOR, *command, *fresh, "-o", "json"]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOW_IT_COSTS = Message(
    "give the sweep {price} or {instance}, or a {budget} of its own in USD",
    price=FieldName("usd_per_hour"),
    instance=FieldName("instance"),
    budget=FieldName("budget"),
)


class Checked(Struct, frozen=True):
    """The words behind `advisor`, what its host costs, and what a run may cost at most."""

    words: tuple[str, ...]
    usd_per_hour: float | None = None
    run_usd: float | None = None


def new_schedule(
    times: ScheduleRequest, checked: Checked, folder: str, now: float, reporting: Reporting | None = None
) -> tuple[NewSchedule, datetime]:
    """The schedule and its first due time; `UsageError` names what is wrong."""
    line = CronLine(times.cron, times.timezone)
    due = line.require_due(datetime.fromtimestamp(now, UTC))
    name = times.name or "-".join(kind_of(checked.words) or ())
    if not _NAME.fullmatch(name):
        raise wrong(
            "name",
            "{field} '{name}' must be up to 64 letters, digits, '.', '_' and '-', not "
            "beginning with one of the last three",
            name=name,
        )
    new = NewSchedule(
        name=name,
        cron=line.text,
        timezone=times.timezone,
        command=checked.words,
        folder=folder,
        misfire=Misfire(times.misfire),
        budget_usd=monthly_budget(times.budget_per_month, checked),
        usd_per_hour=checked.usd_per_hour,
        run_usd=checked.run_usd,
        reporting=reporting,
    )
    return new, due


def monthly_budget(text: str | None, checked: Checked) -> float | None:
    """'20USD' -> 20.0; `UsageError` for other budgets, and where no run has a price."""
    if text is None:
        return None
    try:
        usd = parse_budget(text).usd
    except UsageError:
        usd = None
    if usd is None:
        raise wrong("budget_per_month", "{field} is money, as 20USD, not '{text}'", text=text)
    if checked.usd_per_hour is None and checked.run_usd is None:
        raise wrong("budget_per_month", "{field} needs to know what a run costs", hint=_HOW_IT_COSTS)
    return usd


def checked_sweep(words: Sequence[str], sweep: SweepRun) -> Checked:
    """As `sweep run` checks its options, before it looks at the machine (the daemon's may be
    another one than this), or asks AWS."""
    if sweep.on_aws:
        from advisor.runs.cloud.fleet import launches

        shares = launches(sweep)
        # Of the sweep's id: who goes on with a run elsewhere must find what was launched for it.
        pinned = () if sweep.owner else ("--owner", shares[0].owner)
        return Checked((*words, *pinned), run_usd=sum(share.budget_usd for share in shares))
    usd_per_hour = checked_price(plan_anywhere(sweep), sweep)
    return Checked(tuple(words), usd_per_hour, sweep.budget.usd if sweep.budget else None)


def checked_price(trials: Sequence[Trial], sweep: SweepRun) -> float | None:
    """What the host of a planned sweep costs an hour; `UsageError` where it cannot plan itself."""
    if sweep.adaptive:
        from advisor.runs.adaptive.planning import adaptive_from  # loads SciPy

        adaptive_from(trials, sweep)
    return host_usd_per_hour(sweep)
