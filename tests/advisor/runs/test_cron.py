"""Due times of a cron line, both clock changes included."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from advisor.errors import UsageError
from advisor.runs import cron
from advisor.runs.cron import CronLine


def local(line, first, days):
    zone = ZoneInfo(line.timezone)
    due = line.between(first, first + timedelta(days=days))
    return [moment.astimezone(zone).strftime("%d %H:%M%z") for moment in due]


@pytest.mark.parametrize(
    ("text", "first", "expected"),
    [
        # 2:30 is there twice on October 25th, and not at all on March 29th.
        ("30 2 * * *", (10, 24), ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]),
        ("30 2 * * *", (3, 28), ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"]),
        ("0,30 2,3 29 3 *", (3, 28), ["29 03:00+0200", "29 03:30+0200"]),
    ],
)
def test_a_named_hour_comes_once_a_day_whatever_the_clocks_do(text, first, expected):
    assert local(CronLine(text, "Europe/Berlin"), datetime(2026, *first, tzinfo=UTC), 3) == expected


def test_every_hour_is_every_hour_whatever_the_clocks_do():
    line = CronLine("0 * * * *", "Europe/Berlin")
    for change in (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)):
        due = list(line.between(change, change + timedelta(days=1)))
        assert due == [change + timedelta(hours=n) for n in range(1, 25)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"])
@pytest.mark.parametrize("text", ["30 2 * * *", "*/20 * * * *", "15 0-4 * * *", "0 0 * * sat-sun"])
def test_each_due_time_is_later_than_the_moment_asked_about(text, zone):
    """Every ten minutes of the days around each change of 2026, half an hour at a time too."""
    line = CronLine(text, zone)
    for month, day in ((3, 28), (4, 4), (9, 5), (10, 3), (10, 24)):
        start = datetime(2026, month, day, tzinfo=UTC)
        due = list(line.between(start, start + timedelta(days=2)))
        assert due == sorted(set(due))
        for minutes in range(0, 2 * 24 * 60, 10):
            now = start + timedelta(minutes=minutes)
            later = [item for item in due if item > now]
            assert line.after(now) == later[0] if later else line.after(now) > now


def test_sunday_is_0_and_7_and_monday_1_as_in_cron():
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday
    days = {text: CronLine(f"0 3 * * {text}").after(noon).day for text in ("0", "7", "1", "sun")}
    assert days == {"0": 22, "7": 22, "1": 23, "sun": 22}


def test_a_day_of_month_and_a_day_of_week_are_alternatives():
    due = local(CronLine("0 0 13 * 5"), datetime(2026, 11, 1, tzinfo=UTC), 30)
    assert [item[:2] for item in due] == ["06", "13", "20", "27"]


def test_a_leap_day_is_found_years_away():
    assert CronLine("0 0 29 2 *").after(datetime(2026, 11, 21, tzinfo=UTC)).year == 2028


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("0 3 * *", "UTC", "has 4 fields, not 5"),
        ("", "UTC", "has 0 fields"),
        ("60 3 * * *", "UTC", "60"),
        ("0 3 * * 8", "UTC", "bad day-of-week"),
        ("0 3 * * moon", "UTC", "bad day-of-week"),
        ("0 3 * * 5-1", "UTC", "bad day-of-week"),
        ("* * * * */0", "UTC", "bad day-of-week"),
        ("*/0 * * * *", "UTC", "bad minute"),
        ("0 3 # * *", "UTC", "bad day-of-month"),
        ("１ 3 * * *", "UTC", "bad minute"),  # noqa: RUF001
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("@reboot", "UTC", "unknown cron line '@reboot'"),
        ("0 3 * * *", "Europe/Berln", "did you mean Europe/Berlin"),
        ("0 3 * * *", "", "unknown time zone"),
    ],
)
def test_what_is_no_line_is_refused_with_its_reason(text, zone, words):
    with pytest.raises(UsageError, match=words):
        CronLine(text, zone)


def test_a_machine_without_time_zones_knows_utc_and_says_what_tells_it_others(monkeypatch):
    def unknown(name):
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(cron, "ZoneInfo", unknown)
    monkeypatch.setattr(cron, "available_timezones", set)
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert CronLine("0 3 * * *", "UTC").after(noon) == datetime(2026, 11, 22, 3, tzinfo=UTC)
    with pytest.raises(UsageError, match="install its package tzdata"):
        CronLine("0 3 * * *", "Europe/Berlin")


def test_a_line_that_never_falls_due_is_refused():
    """No fifth Monday of a month is its first day."""
    with pytest.raises(UsageError, match="never falls due"):
        CronLine("0 0 */31 * MON#5").require_due(datetime(2026, 1, 1, tzinfo=UTC))


def test_names_of_usual_lines_are_known():
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert CronLine("@weekly").after(noon) == datetime(2026, 11, 22, tzinfo=UTC)
