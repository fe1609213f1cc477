"""Schedules, and runs of them that are due."""

from advisor.store.records import NewRun, NewSchedule

NOW = 1_790_000_000.0
SWEEP = ("sweep", "run", "--preset", "small")


def schedule(name="weekly", **changes):
    usual = {"cron": "0 3 * * 1", "timezone": "UTC", "command": SWEEP, "folder": "/"}
    return NewSchedule(name=name, **(usual | changes))


def due_run(book, new):
    """Keeps the schedule, and makes a run of it that is due a minute after `NOW`."""
    kept = book.add(new, now=NOW)
    book.runs.claim(kept.number, NOW + 60, [NewRun(NOW + 60)])
    return kept, book.runs.open()[-1]
