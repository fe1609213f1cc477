"""Due times of a crontab line against a brute force that looks at every minute there is."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.runs.scheduling import zones
from advisor.runs.scheduling.crontab import Crontab

MINUTE = timedelta(minutes=1)
# Clocks that go by an hour, by half of one, at midnight, and not at all.
ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata", "UTC")
# Near every change of 2026 in these zones, and a week without any.
STARTS = tuple(
    datetime(2026, month, day, tzinfo=UTC)
    for month, day in ((3, 28), (4, 4), (6, 1), (9, 5), (10, 3), (10, 24))
)
SUNDAY_FIRST = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def numbers(field, lowest, highest, names=()):
    """The numbers of a field, by the manual: crontab(5)."""
    found = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = lowest if first == "*" else number(first, names)
        open_ended = first == "*" or step
        end = number(last, names) if last else highest if open_ended else begin
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


def number(text, names):
    return names.index(text) if text in names else int(text)


class Line:
    """The same by looking: does a wall clock that shows this match?"""

    def __init__(self, text):
        minute, hour, day, month, weekday = text.split()
        self.hours_are_named = not hour.startswith("*")
        self.minutes, self.hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.days, self.months = numbers(day, 1, 31), numbers(month, 1, 12)
        self.weekdays = {one % 7 for one in numbers(weekday, 0, 6, SUNDAY_FIRST)}
        self.either = not day.startswith("*") and not weekday.startswith("*")

    def matches(self, wall):
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        on_day = (day or weekday) if self.either else (day and weekday)
        time = wall.hour in self.hours and wall.minute in self.minutes
        return time and on_day and wall.month in self.months


def brute_force(text, zone, first, last):
    """Every minute of time; at a named hour each wall time once, the skipped ones too."""
    line, zone = Line(text), ZoneInfo(zone)
    due, now = [], first
    before = wall_of(now - MINUTE, zone)
    seen = {wall_of(first - MINUTE * n, zone) for n in range(1, 26 * 60)}
    while now <= last:
        wall = wall_of(now, zone)
        if line.hours_are_named:
            skipped = [before + MINUTE * n for n in range(1, int((wall - before) / MINUTE))]
            # What a clock shows for the second time is done.
            fresh = [one for one in (*skipped, wall) if one not in seen]
            if any(map(line.matches, fresh)):
                due.append(now)
            seen.update(fresh)
        elif line.matches(wall):
            due.append(now)
        before, now = wall, now + MINUTE
    return due


def wall_of(instant, zone):
    return instant.astimezone(zone).replace(tzinfo=None)


def fields(lowest, highest):
    one = st.integers(lowest, highest)
    span = st.tuples(one, one).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.integers(1, max(1, (highest - lowest) // 2)).map(lambda n: f"*/{n}")
    listed = st.lists(one.map(str) | span, min_size=1, max_size=3).map(",".join)
    return st.just("*") | step | listed


LINES = st.tuples(
    fields(0, 59),
    st.just("2") | st.just("0-3") | fields(0, 23),
    st.just("*") | fields(1, 31),
    st.just("*") | fields(1, 12),
    st.just("*") | fields(0, 6) | st.sampled_from(("sun", "mon-fri", "7", "sat,sun")),
).map(" ".join)


@settings(deadline=None)  # thousands of minutes are looked at, on a busy machine too
@given(LINES, st.sampled_from(ZONES), st.sampled_from(STARTS), st.integers(0, 24 * 60))
def test_the_due_times_are_those_that_a_look_at_every_minute_finds(text, zone, start, later):
    first = start + MINUTE * later
    last = first + timedelta(hours=30)
    found = list(Crontab(text, zone).between(first - timedelta(seconds=1), last))
    assert found == brute_force(text, zone, first, last)


@given(LINES, st.sampled_from(ZONES), st.sampled_from(STARTS), st.integers(0, 3 * 24 * 3600))
def test_the_next_due_time_does_not_depend_on_when_it_is_asked_for(text, zone, start, seconds):
    line, asked = Crontab(text, zone), start + timedelta(seconds=seconds)
    due = line.after(asked)
    if due is None:
        return
    assert due > asked
    assert due == line.after(asked + (due - asked) / 2) == line.after(due - MINUTE / 60)


def local(line, first, days):
    zone = ZoneInfo(line.timezone)
    due = line.between(first, first + timedelta(days=days))
    return [one.astimezone(zone).strftime("%d %H:%M%z") for one in due]


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [
        # 2:30 is there twice on October 25th, and not at all on March 29th.
        ("30 2 * * *", datetime(2026, 10, 24, tzinfo=UTC),
         ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]),
        ("30 2 * * *", datetime(2026, 3, 28, tzinfo=UTC),
         ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        ("0,30 2,3 29 3 *", datetime(2026, 3, 28, tzinfo=UTC), ["29 03:00+0200", "29 03:30+0200"]),
    ],
)  # fmt: skip
def test_a_named_hour_comes_once_a_day_whatever_the_clocks_do(text, first, expected):
    assert local(Crontab(text, "Europe/Berlin"), first, 3) == expected


def test_every_hour_is_every_hour_whatever_the_clocks_do():
    line = Crontab("0 * * * *", "Europe/Berlin")
    for change in (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)):
        due = list(line.between(change, change + timedelta(days=1)))
        assert due == [change + timedelta(hours=n) for n in range(1, 25)]


def test_sunday_is_0_and_7_and_monday_1_as_in_cron():
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday
    days = {text: Crontab(f"0 3 * * {text}").after(noon).day for text in ("0", "7", "1", "sun")}
    assert days == {"0": 22, "7": 22, "1": 23, "sun": 22}


def test_a_day_of_month_and_a_day_of_week_are_alternatives():
    due = local(Crontab("0 0 13 * 5"), datetime(2026, 11, 1, tzinfo=UTC), 30)
    assert [one[:2] for one in due] == ["06", "13", "20", "27"]


def test_a_leap_day_is_found_years_away():
    assert Crontab("0 0 29 2 *").after(datetime(2026, 11, 21, tzinfo=UTC)).year == 2028


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("0 3 * *", "UTC", "has 4 fields, not 5"),
        ("", "UTC", "has 0 fields"),
        ("60 3 * * *", "UTC", "60"),
        ("0 3 * * 8", "UTC", "'8' is no day of week"),
        ("0 3 * * moon", "UTC", "'moon' is no day of week"),
        ("0 3 * * 5-1", "UTC", "'5-1' is no day of week"),
        ("* * * * */0", "UTC", "is no day of week"),
        ("*/0 * * * *", "UTC", "higher than 0"),
        ("0 3 # * *", "UTC", "'#' is no day of month"),
        ("１ 3 * * *", "UTC", "is no minute"),  # noqa: RUF001
        ("@reboot", "UTC", "unknown --cron '@reboot'"),
        ("0 3 * * *", "Europe/Berln", "did you mean Europe/Berlin"),
        ("0 3 * * *", "", "unknown time zone"),
    ],
)
def test_what_is_no_line_is_refused_with_its_reason(text, zone, words):
    with pytest.raises(UsageError, match=words):
        Crontab(text, zone)


def test_a_machine_without_time_zones_knows_utc_and_says_what_tells_it_others(monkeypatch):
    def unknown(name):
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zones, "ZoneInfo", unknown)
    monkeypatch.setattr(zones, "available_timezones", set)
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert Crontab("0 3 * * *", "UTC").after(noon) == datetime(2026, 11, 22, 3, tzinfo=UTC)
    with pytest.raises(UsageError, match="install its package tzdata"):
        Crontab("0 3 * * *", "Europe/Berlin")


def test_a_line_that_never_falls_due_is_refused():
    with pytest.raises(UsageError, match="never falls due"):
        Crontab("0 0 30 2 *").require_due(datetime(2026, 1, 1, tzinfo=UTC))


def test_names_of_usual_lines_are_known():
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert Crontab("@weekly").after(noon) == datetime(2026, 11, 22, tzinfo=UTC)
