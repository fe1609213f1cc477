"""The process of one run, with real processes for its command. Real daemons on one database: each due job
once, also when they are killed at any moment. Due times of a cron line, both clock changes included."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest

from advisor.errors import DataError, UsageError
from advisor.runs.jobs import execute
from advisor.runs.schedules import ADVISOR, CronLine, started_as
from advisor.store.records import RunState
from advisor.store.schedules import ScheduleBook
from tests.advisor.store.schedules import NOW, SWEEP, due_run, schedule
from tests.processes import gone

MEASURED = "print('{\"measured_now\": 3}')"

SLEEPING = "import time; time.sleep(60)"


@pytest.fixture
def due(book, tmp_path):
    """Makes a run that is due, and tells its number."""

    def make(**changes):
        _, run = due_run(book, schedule(**{"folder": str(tmp_path), **changes}))
        return run.number

    return make


def running(code):
    """In place of `advisor ..`: a program of Python's."""
    return lambda _words, _due: [sys.executable, "-c", code]


def failing(why, code):
    """A program that says why it fails where commands of the advisor do."""
    said = f"open(os.environ['ADVISOR_ERROR_FILE'], 'w').write('{{\"message\": \"{why}\"}}')"
    return f"import os, sys; {said}; sys.exit({code})"


def nothing(*_):
    return {}


def executed(book, number, **changes):
    """The run as it is after its process."""
    execute(book, number, **{"follow": nothing, "report": nothing, **changes})
    return book.runs.numbered(number)


def test_what_the_command_says_is_kept_with_its_log(book, due):
    number, followed = due(), []

    def follow(run):
        followed.append(run.number)
        return {"fit": {"kept": "new", "why": "better"}}

    code = f"import sys; {MEASURED}; print('[1/3] ..', file=sys.stderr)"
    run = executed(book, number, follow=follow, started=running(code))
    assert (run.state, run.exit_code, run.trials) == (RunState.DONE, 0, 3)
    assert run.report["fit"]["kept"] == "new"
    assert followed == [number]
    assert Path(run.log).read_text() == "[1/3] ..\n"


def test_a_run_is_executed_once_and_an_unknown_one_is_refused(book, due):
    number, count = due(), []
    for _ in range(2):
        executed(book, number, started=lambda *_: count.append(1) or [sys.executable, "-c", ""])
    assert len(count) == 1
    with pytest.raises(UsageError, match="no run 7"):
        execute(book, 7, follow=nothing, report=nothing)


@pytest.mark.parametrize(
    ("changes", "code", "state", "note"),
    [
        ({}, failing("no disk", 1), RunState.FAILED, "no disk"),
        ({"folder": "/no/such/folder"}, "", RunState.FAILED, "no folder /no/such/folder"),
        # A host of 10 dollars a second, and one dollar a month.
        ({"budget_usd": 1.0, "usd_per_hour": 36_000.0}, SLEEPING, RunState.FAILED, "budget of the month"),
        ({}, 'print(\'{"measured_now": 3, "usable_now": 0}\')', RunState.DONE, "0 usable"),
        ({}, 'print(\'{"measured_now": 3, "usable_now": 2}\')', RunState.DONE, ""),
    ],
)
def test_how_a_run_ended_is_kept_with_its_reason(book, due, changes, code, state, note):
    run = executed(book, due(**changes), started=running(code))
    assert run.state is state
    assert note in run.note if note else not run.note


@pytest.mark.parametrize(
    ("text", "trials", "usd"),
    [
        ('{"measured_now": 1, "spent_usd": 0.25}', 1, 0.25),  # of a cloud: more than the host's price
        *((text, None, None) for text in ("", "[1]", '{"measured_now": true}', '{"spent_usd": -1}', "{")),
    ],
)
def test_figures_of_the_commands_document_are_kept_and_what_has_none_is_no_trouble(
    book, due, text, trials, usd
):
    changes = {"usd_per_hour": 36_000.0} if usd else {}
    run = executed(book, due(**changes), started=running(f"print({text!r})"))
    assert (run.state, run.trials, run.cost_usd) == (RunState.DONE, trials, usd)


def test_a_fit_follows_only_a_sweep_that_measured_and_does_not_make_it_fail(book, due):
    follow = Mock(side_effect=DataError("no rows"))
    run = executed(book, due(), follow=follow, started=running(MEASURED))
    assert (run.state, run.report["fit"]) == (RunState.DONE, {"kept": "last", "why": "no rows"})
    run = executed(book, due(name="fit", command=("fit",)), follow=follow, started=running(MEASURED))
    assert (run.state, follow.call_count) == (RunState.DONE, 1)


@pytest.mark.parametrize(("measured", "follows"), [("null", 1), ("0", 0), ("2", 1)])
def test_where_a_command_does_not_know_how_many_it_measured_the_store_is_asked(book, due, measured, follows):
    """An instance wrote into a shared database by itself."""
    number, followed = due(), []
    text = f"print('{{\"measured_now\": {measured}}}')"
    executed(book, number, follow=lambda run: followed.append(run) or {}, started=running(text))
    assert len(followed) == follows


def test_a_sweep_measures_anew_what_is_older_than_its_due_time():
    fresh = ("--fresh-since", "2026-09-21T14:13:20+00:00", "-o", "json")
    assert started_as(SWEEP, NOW) == [*ADVISOR, *SWEEP, *fresh]
    assert started_as(("fit",), NOW) == [*ADVISOR, "fit", "-o", "json"]


@pytest.mark.slow
def test_files_of_the_folder_where_a_command_works_are_no_modules(book, due, tmp_path):
    (tmp_path / "click.py").write_text("1 / 0")
    run = executed(book, due(command=("catalog", "refresh", "--show")))
    assert (run.state, run.exit_code) == (RunState.DONE, 0), run.note


RUNNER = """
import sys
from advisor.cli import main
from advisor.runs import jobs


def execute(book, number, *, follow, report):
    words = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    return real(book, number, follow=follow, report=report, started=lambda *_: words)
real, jobs.execute = jobs.execute, execute
main.main(["schedule", "execute", sys.argv[1]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_ended_takes_its_command_along_and_leaves_the_run(book, due, number):
    """Politely: the run is due again. By force: the row says that its process has gone."""
    run, environment = due(), {**os.environ, "ADVISOR_DATABASE_URL": f"sqlite:///{book.name}"}
    process = subprocess.Popen([sys.executable, "-c", RUNNER, str(run)], env=environment)
    while not (children := children_of(process.pid)):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.wait(60)
    result = book.runs.numbered(run)
    if number is signal.SIGTERM:
        assert (result.state, result.attempts) == (RunState.DUE, 0)
    else:
        assert (result.state, result.alive) == (RunState.RUNNING, False)
    for child in children:
        assert gone(child)


def children_of(pid):
    """Its children that have begun their command: one that was just forked still has its parent's locks."""
    try:
        names = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own, *commands = (Path(f"/proc/{name}/cmdline").read_bytes() for name in (pid, *names))
        return [int(name) for name, command in zip(names, commands, strict=True) if command != own]
    except OSError:
        return []


def daemon(url, folder):
    environment = {**os.environ, "ADVISOR_DATABASE_URL": url, "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.Popen([*ADVISOR, "schedule", "run"], env=environment, cwd=folder)


def is_leader(book, pid):
    leader = book.leader()
    return leader is not None and leader.pid == pid


@pytest.mark.kills
@pytest.mark.slow
def test_the_leader_of_two_daemons_is_killed_again_and_again_and_each_job_runs_once(url, tmp_path):
    """Real ones; the other takes over, and what a killed one had begun goes on."""
    both = [daemon(url, tmp_path), daemon(url, tmp_path)]
    with closing(ScheduleBook(url)) as book:
        for number in range(4):
            command = ("catalog", "refresh", "--show", "--region", f"region-{number}")
            new = schedule(f"job-{number}", cron="0 * * * *", command=command, folder=str(tmp_path))
            book.add(new, now=time.time() - 3600)
            while not (leads := [process for process in both if is_leader(book, process.pid)]):
                time.sleep(0.05)
            time.sleep(number * 0.4)
            leads[0].kill()
            leads[0].wait()
            both[both.index(leads[0])] = daemon(url, tmp_path)
        while len(runs := [run for job in book.all() for run in book.runs.latest(job.number)]) < 4 or any(
            run.state in (RunState.DUE, RunState.RUNNING) for run in runs
        ):
            time.sleep(0.2)
        for process in both:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(60) for process in both] == [128 + signal.SIGTERM] * 2
    assert [(run.state, run.attempts) for run in runs] == [(RunState.DONE, 1)] * 4


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


def test_a_cron_line_means_what_it_does_in_cron():
    line = CronLine("0 * * * *", "Europe/Berlin")
    for change in (datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)):
        due = list(line.between(change, change + timedelta(days=1)))
        assert due == [change + timedelta(hours=n) for n in range(1, 25)]
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday
    days = {text: CronLine(f"0 3 * * {text}").after(noon).day for text in ("0", "7", "1", "sun")}
    assert days == {"0": 22, "7": 22, "1": 23, "sun": 22}
    due = local(CronLine("0 0 13 * 5"), datetime(2026, 11, 1, tzinfo=UTC), 30)
    assert [item[:2] for item in due] == ["06", "13", "20", "27"]
    assert CronLine("0 0 29 2 *").after(datetime(2026, 11, 21, tzinfo=UTC)).year == 2028
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert CronLine("@weekly").after(noon) == datetime(2026, 11, 22, tzinfo=UTC)


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
