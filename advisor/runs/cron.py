"""When a cron line is due, in a time zone, by Debian's rules for clock changes (`cronsim`); and whether due
times that have passed are run, or skipped for a reason.

A line with fixed hours follows the wall clock: each of its times comes once a day, the first of two when
clocks go back, and at the end of the gap when they skip it. A line with `*` for minutes or hours follows time
itself: every 30 minutes is every 30 minutes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.questions.fields import wrong
from advisor.store.records import OPEN_STATES, Misfire, NewRun, Run, RunState, Schedule
from advisor.units import format_counted, format_hours, format_usd

# Later than this no daemon ran: longer than another one takes to go on.
ON_TIME_SECONDS = 300.0
# Nobody wants to know of each minute of the year in which a machine was off.
_LONGEST_LOOK_BACK_SECONDS = 400 * 86400.0


def rows_for_due_times(schedule: Schedule, now: float, recent: Sequence[Run]) -> tuple[NewRun, ...]:
    """The rows for the due times up to `now` that have none yet; the last is the latest due time.

    `recent` are its runs of the month, the latest ones and any open one. Each due time that is on time has
    its row. Those that are late have one row together, at the latest: it runs once for all of them, or none
    runs, as `misfire` says. A run is left out while another one of its schedule is open, or where the budget
    ends."""
    first = max(schedule.considered_until, now - _LONGEST_LOOK_BACK_SECONDS)
    line = CronLine(schedule.cron, schedule.timezone)
    between = line.between(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(now, UTC))
    due = [moment.timestamp() for moment in between]
    late = [moment for moment in due if now - moment > ON_TIME_SECONDS]
    rows = [_missed(schedule, late, now)] if late else []
    rows += [NewRun(moment) for moment in due[len(late) :]]
    busy, kept = "", list[NewRun]()
    if run := next((run for run in recent if run.state in OPEN_STATES), None):
        when = datetime.fromtimestamp(run.due_at, UTC).isoformat(timespec="minutes")
        state = "still going" if run.state is RunState.RUNNING else "still waiting"
        busy = f"the run of {when} was {state}"
    for row in rows:
        if row.state is RunState.DUE:
            if reason := busy or _too_dear(schedule, row, recent):
                row = NewRun(row.due_at, RunState.SKIPPED, reason)
            else:
                busy = "the run before it was still waiting"
        kept.append(row)
    return tuple(kept)


def _missed(schedule: Schedule, late: Sequence[float], now: float) -> NewRun:
    latest, others = late[-1], len(late) - 1
    also = f", nor at {format_counted(others, 'earlier due time')}" if others else ""
    no_daemon = f"no daemon ran at its time{also}"
    if schedule.misfire is Misfire.SKIP:
        return NewRun(latest, RunState.SKIPPED, f"{no_daemon} (--misfire skip)")
    return NewRun(latest, RunState.DUE, f"{format_hours((now - latest) / 3600)} late: {no_daemon}")


def _too_dear(schedule: Schedule, row: NewRun, runs: Sequence[Run]) -> str:
    left = usd_left(schedule, runs, row.due_at)
    if left is None:
        return ""
    month = datetime.fromtimestamp(row.due_at, zone_of(schedule.timezone)).strftime("%Y-%m")
    budget = f"{format_usd(schedule.budget_usd or 0.0)} of {month}"
    if left <= 0:
        return f"the budget of {budget} is spent"
    # The command's limit, else the dearest run so far; 0 before the first, which ends where the budget does.
    most = schedule.run_usd
    if most is None:
        most = max((run.cost_usd or 0.0 for run in runs), default=0.0)
    if most <= left:
        return ""
    return f"it may cost {format_usd(most)}, and of the {budget} only {format_usd(left)} are left"


def month_of(timezone: str, moment: float) -> tuple[float, float]:
    """First and last moment (seconds since 1970, the last one excluded) of the month on the
    zone's calendar."""
    zone = zone_of(timezone)
    here = datetime.fromtimestamp(moment, zone)
    first = datetime(here.year, here.month, 1, tzinfo=zone)
    after = datetime(here.year + here.month // 12, here.month % 12 + 1, 1, tzinfo=zone)
    return first.timestamp(), after.timestamp()


def spent_usd(schedule: Schedule, runs: Sequence[Run], moment: float) -> float:
    """The cost of the month's runs so far; an unfinished or lost run counts with the most that it may
    cost."""
    first, last = month_of(schedule.timezone, moment)
    most, spent = schedule.run_usd or 0.0, 0.0
    for run in runs:
        if first <= run.due_at < last:
            unknown = most if run.begun_at is not None else 0.0
            cost = unknown if run.cost_usd is None else run.cost_usd
            spent += max(cost, most) if run.state is RunState.RUNNING and run.cost_usd is not None else cost
    return spent


def usd_left(schedule: Schedule, runs: Sequence[Run], moment: float) -> float | None:
    """The rest of the month's budget; None without one."""
    if schedule.budget_usd is None:
        return None
    return schedule.budget_usd - spent_usd(schedule, runs, moment)


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
_EVERY = re.compile(r"@every\s+([0-9]{1,3})\s*(m|min|h)", re.IGNORECASE)
_TAKEN = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31 or L",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT",
}


class CronLine:
    """A cron line in a time zone. `UsageError` says which field is wrong, or the nearest zone."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        self.text = " ".join(text.split())
        self.timezone = timezone
        self._zone = zone_of(timezone)
        self._expression = _expression(self.text)
        self._times_after(datetime.now(UTC))  # refuses a field that is wrong

    def after(self, instant: datetime) -> datetime | None:
        """The first due time after an instant, in UTC; None where there is none in 50 years."""
        return next(self._after(instant), None)

    def between(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The due times with first < due <= last, in order."""
        for due in self._after(first):
            if due > last:
                return
            yield due

    def require_due(self, now: datetime) -> datetime:
        """The next due time; `UsageError` where there is none."""
        due = self.after(now)
        if due is None:
            raise wrong(
                "cron", "{field} '{line}' never falls due", line=self.text, hint="is there such a day?"
            )
        return due

    def _after(self, instant: datetime) -> Iterator[datetime]:
        for due in self._times_after(instant):
            # In the hour that clocks show twice, a time of the first pass is over.
            if due.astimezone(UTC) > instant:
                yield due.astimezone(UTC)

    def _times_after(self, instant: datetime) -> CronSim:
        try:
            return CronSim(self._expression, instant.astimezone(self._zone))
        except CronSimError as error:
            reason = str(error).lower()
            taken = _TAKEN.get(reason.removeprefix("bad "))
            hint = Message("it takes {taken}, lists (1,2), ranges (1-5) and steps (*/2)", taken=taken)
            raise wrong(
                "cron",
                "{field} '{line}': {reason}",
                line=self.text,
                reason=reason,
                hint=hint if taken else None,
            ) from error


def zone_of(name: str) -> tzinfo:
    """The time zone of that name; UTC on every machine. `UsageError` names the nearest zone."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        names = available_timezones()
    if names:
        raise unknown_name("time zone", name, names, field="timezone")
    raise UsageError(
        "time zone '{name}': this machine has none but UTC",
        name=name,
        field="timezone",
        hint=Message("install its package tzdata, or `pip install tzdata`"),
    )


def _expression(text: str) -> str:
    """The five fields of a line, as cronsim takes them."""
    if match := _EVERY.fullmatch(text):
        number, whole = int(match[1]), 24 if match[2].lower() == "h" else 60
        if not number or whole % number:
            raise wrong(
                "cron",
                "{field} '{line}': a day has no such even parts",
                line=text,
                hint=Message("a number that divides {whole}, or write a cron line", whole=whole),
            )
        text = f"*/{number} * * * *" if whole == 60 else f"0 */{number} * * *"
    if text.startswith("@") and text.lower() not in _MACROS:
        raise unknown_name("cron line", text, _MACROS, field="cron")
    fields = _MACROS.get(text.lower(), text).upper().split()
    if len(fields) != _FIELDS:
        raise wrong(
            "cron",
            "{field} '{line}' has {count} fields, not 5 (minute, hour, day of month, month, day of week)",
            line=text,
            count=len(fields),
            hint="write it like '0 3 * * 1' for Mondays at 3:00",
        )
    fields[4] = fields[4].replace("-SUN", "-7")  # a week may end with Sunday: FRI-SUN
    return " ".join(fields)
