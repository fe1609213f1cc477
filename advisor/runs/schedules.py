"""Schedules: due times of cron lines, checks before a schedule is stored, budgets, and JSON documents.

Clock changes follow Debian's rules (`cronsim`). A line with fixed hours follows the wall clock: each of its
times is due once a day, at the first of two when clocks go back, and at the end of the gap when they skip it.
A line with `*` for minutes or hours follows elapsed time: every 30 minutes is every 30 minutes. The sweep of
a schedule is checked when the schedule is added, as `sweep run` would check it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from msgspec import Struct

from advisor.domain import Trial
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message, format_counted, format_span, format_usd
from advisor.questions.fields import error_in
from advisor.runs.fields import parse_budget
from advisor.runs.processes import ADVISOR
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import SweepRun
from advisor.runs.sweeps.data import plan_anywhere
from advisor.runs.sweeps.sweeping import host_usd_per_hour
from advisor.store.records import Leader, Misfire, NewRun, NewSchedule, Reporting, Run, RunState, Schedule

if TYPE_CHECKING:
    from advisor.store.schedules import ScheduleBook

LIST, ONE = "advisor.schedules/1", "advisor.schedule/1"


class Status(Struct, frozen=True):
    """A schedule with its next due time, last run, and cost this month."""

    schedule: Schedule
    next_due: datetime | None
    last: Run | None
    month: str
    spent_usd: float


def status_of(book: ScheduleBook, schedule: Schedule, now: float) -> Status:
    """The status of a schedule at the time `now` (seconds since 1970)."""
    moment = datetime.fromtimestamp(now, UTC)
    return Status(
        schedule=schedule,
        next_due=CronLine(schedule.cron, schedule.timezone).after(moment),
        last=next(iter(book.runs.latest(schedule.number, 1)), None),
        month=moment.astimezone(zone_of(schedule.timezone)).strftime("%Y-%m"),
        spent_usd=month_cost(book, schedule, now)[0],
    )


def list_document(database: str, rows: Sequence[Status], leader: Leader | None, now: float) -> dict[str, Any]:
    """The document `advisor.schedules/1`."""
    # The daemon has a lock, not a lease, so there is no time left to report.
    led = {"host": leader.host, "pid": leader.pid, "lease_seconds_left": None} if leader else None
    documents = [
        {**_schedule_document(row), "last_run": run_document(row.last) if row.last else None} for row in rows
    ]
    return {"schema": LIST, "at": iso_text(now), "database": database, "leader": led, "schedules": documents}


def one_document(status: Status, runs: Sequence[Run], now: float) -> dict[str, Any]:
    """The document `advisor.schedule/1`."""
    return {
        "schema": ONE,
        "at": iso_text(now),
        "schedule": _schedule_document(status),
        "runs": [run_document(run) for run in runs],
    }


def run_document(run: Run) -> dict[str, Any]:
    """A run as JSON; `fit` and `drift` are null where no sweep measured anything."""
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
    from advisor.runs.delivery.targets import target_label

    schedule, reporting = status.schedule, status.schedule.reporting
    budget = schedule.budget_usd
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "command": list(schedule.command),
        "folder": schedule.folder,
        "misfire": schedule.misfire.value,
        # Targets may hold secrets, so only their labels are shown.
        "reporting": reporting
        and {
            "plan": reporting.plan,
            "format": reporting.format,
            "only_changes": reporting.only_changes,
            "send": [target_label(word) for word in reporting.send],
        },
        "added_at": iso_text(schedule.created_at),
        "next_due": status.next_due.isoformat() if status.next_due else None,
        "budget_usd_per_month": budget,
        "month": status.month,
        "spent_usd": round(status.spent_usd, 6),
        "left_usd": None if budget is None else round(budget - status.spent_usd, 6),
    }


def iso_text(seconds: float | None, timespec: str = "seconds") -> str | None:
    """A time (seconds since 1970) as ISO 8601 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec)


# The first words of the commands that may be scheduled.
ALLOWED = (("sweep", "run"), ("fit",), ("catalog", "refresh"))
# With one of these options a sweep measures on other machines.
_ELSEWHERE = {"--ray-address", "--on"}


def kind_of(command: Sequence[str]) -> tuple[str, ...] | None:
    """The allowed command with which these words begin; None if there is none."""
    return next((words for words in ALLOWED if tuple(command[: len(words)]) == words), None)


def is_sweep(command: Sequence[str]) -> bool:
    """True if the command is `sweep run`."""
    return kind_of(command) == ("sweep", "run")


def is_remote_sweep(command: Sequence[str]) -> bool:
    """True if the command measures on other machines only, so that other runs may go on here."""
    return is_sweep(command) and not _ELSEWHERE.isdisjoint(word.partition("=")[0] for word in command)


def started_as(command: Sequence[str], due_at: float) -> list[str]:
    """The command line of a run. A sweep measures trials again that are older than its due time (seconds
    since 1970), but not those that an earlier attempt of the same run measured."""
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
    """A checked command without `advisor`, the price of its host, and the most that a run may cost."""

    words: tuple[str, ...]
    usd_per_hour: float | None = None
    run_usd: float | None = None


def new_schedule(
    times: ScheduleRequest, checked: Checked, folder: str, now: float, reporting: Reporting | None = None
) -> tuple[NewSchedule, datetime]:
    """The schedule to add and its first due time; `UsageError` names the wrong field."""
    line = CronLine(times.cron, times.timezone)
    due = line.after(datetime.fromtimestamp(now, UTC))
    if due is None:
        raise error_in(
            "cron", "{field} '{line}' never falls due", line=line.text, hint="is there such a day?"
        )
    name = times.name or "-".join(kind_of(checked.words) or ())
    if not _NAME.fullmatch(name):
        raise error_in(
            "name",
            "{field} '{name}' must be up to 64 letters, digits, '.', '_' and '-', not "
            "beginning with one of the last three",
            name=name,
        )
    budget_usd = None
    if times.budget_per_month is not None:
        with suppress(UsageError):
            budget_usd = parse_budget(times.budget_per_month).usd
        if budget_usd is None:
            raise error_in(
                "budget_per_month", "{field} is money, as 20USD, not '{text}'", text=times.budget_per_month
            )
        if not is_sweep(checked.words):
            raise error_in("budget_per_month", "{field} is for sweeps", hint="leave it out")
        if checked.usd_per_hour is None and checked.run_usd is None:
            raise error_in("budget_per_month", "{field} needs to know what a run costs", hint=_HOW_IT_COSTS)
    new = NewSchedule(
        name=name,
        cron=line.text,
        timezone=times.timezone,
        command=checked.words,
        folder=folder,
        misfire=Misfire(times.misfire),
        budget_usd=budget_usd,
        usd_per_hour=checked.usd_per_hour,
        run_usd=checked.run_usd,
        reporting=reporting,
    )
    return new, due


def checked_sweep(words: Sequence[str], sweep: SweepRun) -> Checked:
    """Check a sweep's options as `sweep run` does, but without this machine's hardware or AWS."""
    if sweep.on_aws:
        from advisor.runs.cloud.plan import launches

        shares = launches(sweep)
        # The owner is part of the sweep's id: another machine that continues the run must find its instances.
        pinned = () if sweep.owner else (f"--owner={shares[0].owner}",)
        return Checked((*words, *pinned), run_usd=sum(share.budget_usd for share in shares))
    usd_per_hour = checked_price(plan_anywhere(sweep), sweep)
    return Checked(tuple(words), usd_per_hour, sweep.budget.usd if sweep.budget else None)


def checked_price(trials: Sequence[Trial], sweep: SweepRun) -> float | None:
    """The host's price per hour, if known; `UsageError` where an adaptive sweep cannot be planned."""
    if sweep.adaptive:
        from advisor.runs.adaptive import adaptive_from  # loads SciPy

        adaptive_from(trials, sweep)
    return host_usd_per_hour(sweep)


# A due time that is handled later than this was missed: no daemon ran. Another daemon takes over sooner.
ON_TIME_SECONDS = 300.0
# Bounds the due times to go through after a machine was off for years.
_LONGEST_LOOK_BACK_SECONDS = 400 * 86400.0


def rows_for_due_times(
    schedule: Schedule, now: float, open_run: Run | None, reason_unpaid: Callable[[float], str]
) -> tuple[NewRun, ...]:
    """The rows to insert for due times up to `now` that have none, in order of time.

    Missed due times (no daemon ran) share one row at the latest of them, which runs or is skipped according
    to `misfire`. A due time is also skipped while another run of the schedule is open, and where
    `reason_unpaid` returns why the month's budget does not pay it."""
    first = max(schedule.considered_until, now - _LONGEST_LOOK_BACK_SECONDS)
    line = CronLine(schedule.cron, schedule.timezone)
    between = line.between(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(now, UTC))
    due = [moment.timestamp() for moment in between]
    late = [moment for moment in due if now - moment > ON_TIME_SECONDS]
    rows = [NewRun(moment) for moment in due[len(late) :]]
    if late:
        also = f", nor at {format_counted(len(late) - 1, 'earlier due time')}" if len(late) > 1 else ""
        note = f"no daemon ran at its time{also}"
        if schedule.misfire is Misfire.SKIP:
            rows.insert(0, NewRun(late[-1], RunState.SKIPPED, f"{note} (--misfire skip)"))
        else:
            rows.insert(0, NewRun(late[-1], note=f"{format_span((now - late[-1]) / 3600)} late: {note}"))
    busy, kept = "", list[NewRun]()
    if open_run:
        when = datetime.fromtimestamp(open_run.due_at, UTC).isoformat(timespec="minutes")
        state = "still going" if open_run.state is RunState.RUNNING else "still waiting"
        busy = f"the run of {when} was {state}"
    for row in rows:
        if row.state is RunState.DUE:
            if reason := busy or reason_unpaid(row.due_at):
                row = NewRun(row.due_at, RunState.SKIPPED, reason)
            else:
                busy = "the run before it was still waiting"
        kept.append(row)
    return tuple(kept)


def month_cost(
    book: ScheduleBook, schedule: Schedule, moment: float, besides: int | None = None
) -> tuple[float, float | None]:
    """Cost of a schedule's runs in the calendar month of `moment`, and the rest of the budget (None without
    a budget). Run `besides` is not counted; an unfinished or lost run counts with its limit."""
    here = datetime.fromtimestamp(moment, zone_of(schedule.timezone))
    first = here.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    after = (first + timedelta(days=32)).replace(day=1)
    spent, most = 0.0, schedule.run_usd or 0.0
    for run in book.runs.between(schedule.number, first.timestamp(), after.timestamp()):
        if run.number != besides and (run.begun_at is not None or run.cost_usd is not None):
            cost = most if run.cost_usd is None else run.cost_usd
            spent += max(cost, most) if run.state is RunState.RUNNING else cost
    return spent, None if schedule.budget_usd is None else schedule.budget_usd - spent


def reason_unpaid(book: ScheduleBook, schedule: Schedule, due_at: float) -> str:
    """The reason why the month's budget does not pay another run; empty if it does."""
    _, left = month_cost(book, schedule, due_at)
    if left is None:
        return ""
    month = datetime.fromtimestamp(due_at, zone_of(schedule.timezone)).strftime("%Y-%m")
    budget, most = f"{format_usd(schedule.budget_usd or 0.0)} of {month}", schedule.run_usd
    if left <= 0:
        return f"the budget of {budget} is spent"
    if most is None:  # no limit: assume the dearest of its latest runs
        most = max((run.cost_usd or 0.0 for run in book.runs.latest(schedule.number)), default=0.0)
    if most <= left:
        return ""
    return f"it may cost {format_usd(most)}, and of the {budget} only {format_usd(left)} are left"


_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5


class CronLine:
    """A cron line in a time zone. `UsageError` names the wrong field, or suggests the nearest zone."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        self.text = " ".join(text.split())
        self.timezone = timezone
        self._zone = zone_of(timezone)
        self._expression = _expression(self.text)
        self._times_after(datetime.now(UTC))  # raises for a wrong field

    def after(self, instant: datetime) -> datetime | None:
        """The first due time after an instant, in UTC; None if there is none within 50 years."""
        return next(self._times_after(instant), None)

    def between(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The due times with first < due <= last, in order."""
        return takewhile(lambda due: due <= last, self._times_after(first))

    def _times_after(self, instant: datetime) -> Iterator[datetime]:
        try:
            times = CronSim(self._expression, instant.astimezone(self._zone))
        except CronSimError as error:
            raise error_in(
                "cron",
                "{field} '{line}': {reason}",
                line=self.text,
                reason=str(error).lower(),
                hint="a field takes numbers or names, lists (1,2), ranges (1-5) and steps (*/2)",
            ) from error
        # In the hour that clocks show twice, cronsim may return a time of the first pass, which is over.
        return (due for due in (time.astimezone(UTC) for time in times) if due > instant)


@cache  # finding all names reads the system's folder, 30 ms each time
def zone_of(name: str) -> tzinfo:
    """The time zone of that name; `UTC` works on every machine. `UsageError` suggests the nearest."""
    if name == "UTC":
        return UTC
    names = available_timezones()
    if name not in names:  # `ZoneInfo` would open any text as the path of a file in its folder
        raise unknown_name("time zone", name, names | {"UTC"}, field="timezone")
    return ZoneInfo(name)


def _expression(text: str) -> str:
    """The five fields of a cron line or a macro, in cronsim's form."""
    if text.startswith("@") and text.lower() not in _MACROS:
        raise unknown_name("cron line", text, _MACROS, field="cron")
    fields = _MACROS.get(text.lower(), text).upper().split()
    if len(fields) != _FIELDS:
        raise error_in(
            "cron",
            "{field} '{line}' has {count} fields, not 5 (minute, hour, day of month, month, day of week)",
            line=text,
            count=len(fields),
            hint="write it like '0 3 * * 1' for Mondays at 3:00",
        )
    fields[4] = fields[4].replace("-SUN", "-7")  # a week may end with Sunday: FRI-SUN
    return " ".join(fields)
