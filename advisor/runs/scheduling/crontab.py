"""When a crontab line is due, in a time zone, both clock changes included.

Five fields as in crontab(5): minute, hour, day of month, month, day of week (0 and 7 are Sunday);
day of month and day of week are alternatives where both are given. APScheduler's triggers find
the times on the wall clock; this module turns them into instants, since the trigger itself fires
"30 2 * * *" twice on the night in which clocks go back, counts 0 as Monday, and takes the days
together.

A line that names its hours follows the wall clock: each of its times once a day, at the first of
two such moments when clocks go back, and at the end of the gap when they skip it. A line with *
for its hours follows time itself: every 30 minutes is every 30 minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from advisor.errors import UsageError, unknown_name
from advisor.runs.scheduling.zones import zone_of

# February 29th may be eight years away (1896 to 1904, and 2096 to 2104).
_FARTHEST = timedelta(days=366 * 9)
# No zone's clock was ever moved by more than a day (Samoa left one out in 2011).
_LONGEST_CHANGE = timedelta(hours=25)
# No zone moves its clock and moves it back within so long.
_CHANGES_APART = timedelta(days=1)
_MACROS = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}  # fmt: skip
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_FIELD = re.compile(r"[\w*/,-]+", re.ASCII)
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")


class Crontab:
    """A crontab line in a time zone. `UsageError` names the field that is wrong, the nearest zone,
    or that the line never falls due."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        self.text = " ".join(text.split())
        self.timezone = timezone
        self._zone = zone_of(timezone)
        self._fields = _fields(self.text)
        self._follows_the_wall = not self._fields[1].startswith("*")
        self._triggers = self._made_triggers()

    def after(self, instant: datetime) -> datetime | None:
        """The first due time after an instant, in UTC; None where there is none in nine years."""
        begin, wall = instant.astimezone(UTC), self._not_yet_shown(instant)
        while True:
            found = self._next_wall(wall)
            if found is None:
                return None
            # What the clock skipped lies before the change that skipped it, and is due then.
            due = max(begin, found.replace(tzinfo=UTC) - self._offset(begin))
            change = self._next_change(begin, due)
            if change is None:
                return due
            begin, wall = change, self._resumed(wall, change)

    def between(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The due times with first < due <= last, in order."""
        due = self.after(first)
        while due is not None and due <= last:
            yield due
            due = self.after(due)

    def require_due(self, now: datetime) -> datetime:
        """The next due time; `UsageError` where there is none."""
        due = self.after(now)
        if due is None:
            raise UsageError(f"--cron '{self.text}' never falls due; is there such a day?")
        return due

    def _not_yet_shown(self, instant: datetime) -> datetime:
        """The earliest wall time that may be due after an instant; for a line that follows the
        wall nothing that was shown already before the clock went back."""
        shown = _wall(instant, self._offset(instant)) + timedelta(microseconds=1)
        change = self._next_change(instant - _LONGEST_CHANGE, instant)
        if change is None or not self._follows_the_wall:
            return shown
        return max(shown, self._wall_until(change))

    def _resumed(self, wall: datetime, change: datetime) -> datetime:
        """Where to look on from when the clock is moved: a line that follows the wall misses
        nothing of what is skipped, and does nothing again."""
        if self._follows_the_wall:
            return max(wall, self._wall_until(change))
        return _wall(change, self._offset(change))

    def _next_change(self, first: datetime, last: datetime) -> datetime | None:
        """When the clock is moved with first < change <= last, to the second; the earliest."""
        while first < last:
            next_look = min(first + _CHANGES_APART, last)
            if self._offset(first) != self._offset(next_look):
                return self._change_between(first, next_look)
            first = next_look
        return None

    def _change_between(self, before: datetime, behind: datetime) -> datetime:
        offset = self._offset(before)
        while behind - before > timedelta(seconds=1):
            middle = before + (behind - before) // 2
            if self._offset(middle) == offset:
                before = middle
            else:
                behind = middle
        return behind.replace(microsecond=0)

    def _wall_until(self, change: datetime) -> datetime:
        """What the clock would have shown at a change without it."""
        return _wall(change, self._offset(change - timedelta(seconds=1)))

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta(0)

    def _next_wall(self, wall: datetime) -> datetime | None:
        """The first wall time of the line at or after one; None within nine years."""
        start = wall.replace(tzinfo=UTC)
        found: list[datetime] = []
        for trigger in self._triggers:
            trigger.end_date = start + _FARTHEST  # it would search up to the year 9999
            found += filter(None, [trigger.get_next_fire_time(None, start)])
        return min(found).replace(tzinfo=None) if found else None

    def _made_triggers(self) -> list[Any]:
        """One trigger; two where days are given in both ways, either of which will do. In UTC,
        whose clock is never moved: it stands for the wall."""
        minute, hour, day, month, weekday = self._fields
        either = not day.startswith("*") and not weekday.startswith("*")
        days = [(day, "*"), ("*", weekday)] if either else [(day, weekday)]
        return [self._one_trigger(minute, hour, month, *one) for one in days]

    def _one_trigger(self, minute: str, hour: str, month: str, day: str, weekday: str) -> Any:
        from apscheduler.triggers.cron import CronTrigger

        try:
            return CronTrigger(
                minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday),
                second="0", timezone=UTC,
            )  # fmt: skip
        except ValueError as error:
            raise UsageError(f"--cron '{self.text}': {error}") from error


def _wall(instant: datetime, offset: timedelta) -> datetime:
    """What a clock that is so far ahead of UTC shows, without a zone."""
    return instant.astimezone(UTC).replace(tzinfo=None) + offset


def _fields(text: str) -> tuple[str, str, str, str, str]:
    if text.startswith("@") and text.lower() not in _MACROS:
        raise unknown_name("--cron", text, _MACROS)
    fields = _MACROS.get(text.lower(), text).lower().split()
    if len(fields) != len(_FIELDS):
        raise UsageError(
            f"--cron '{text}' has {len(fields)} fields, not 5 ({', '.join(_FIELDS)}); write it "
            "like '0 3 * * 1' for Mondays at 3:00"
        )
    for name, field in zip(_FIELDS, fields, strict=True):
        parts = field.split(",")
        if not _FIELD.fullmatch(field) or not all(map(_PART.fullmatch, parts)):
            raise UsageError(f"--cron '{text}': '{field}' is no {name}")
    minute, hour, day, month, weekday = fields
    return minute, hour, day, month, weekday


def _weekdays(field: str) -> str:
    """As APScheduler takes them: by name, since it counts from Monday and cron from Sunday."""
    if field == "*":
        return "*"
    found: set[int] = set()
    for part in field.split(","):
        found |= _days_of(part)
    return ",".join(_WEEKDAYS[one] for one in sorted(found))


def _days_of(part: str) -> set[int]:
    match = _PART.fullmatch(part)
    assert match is not None
    step = int(match["step"] or 1)
    if match["first"] == "*":
        first, last = 0, 6
    else:
        first = _weekday(match["first"])
        # As for the other fields, `1/2` is from there on, every second.
        last = _weekday(match["last"]) if match["last"] else 6 if match["step"] else first
    if last < first and _WEEKDAYS[last % 7] == "sun":
        last = 7  # sat-sun
    if last < first or not 1 <= step <= 7:
        raise ValueError(f"'{part}' is no day of week")
    return {one % 7 for one in range(first, last + 1, step)}


def _weekday(text: str) -> int:
    if text in _WEEKDAYS:
        return _WEEKDAYS.index(text)
    if text.isascii() and text.isdigit() and int(text) <= 7:
        return int(text)
    raise ValueError(f"'{text}' is no day of week (0 to 7 or sun to sat)")
