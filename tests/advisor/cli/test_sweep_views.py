"""A sweep on a screen, and when it is to measure anew."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from advisor.cli.printing import is_terminal
from advisor.cli.questions import question_from
from advisor.cli.sweep import run as sweep_run
from advisor.cli.sweep_status import snapshot_lines
from advisor.cli.sweep_view import result_line, view_lines
from advisor.domain import Status
from advisor.runs.cloud.plan import launches, sweep_id
from advisor.runs.sweep_questions import SweepRun
from advisor.runs.sweeps.status import snapshot_document
from advisor.sweeps.run.runner import Progress
from advisor.sweeps.watching.progress import Snapshot, pace_of
from tests.advisor.render.schemas import assert_keeps
from tests.processes import all_of
from tests.sweeps.builders import held, measurement, running, standing

GOLDEN = Path(__file__).parents[2] / "golden"
NOON = datetime(2026, 7, 20, 12, tzinfo=UTC)
DRAWING = """
from advisor.cli.printing import live_block
with live_block(lambda: ["sweep  1 failed"], stderr=False):
    raise KeyboardInterrupt
"""


def snapshot(**changes):
    begun = [(NOON - timedelta(seconds=item)).isoformat() for item in (60, 40, 20)]
    values = {
        "at": NOON,
        "database": "db.example:5432/sweeps",
        "total": 24,
        "counts": {"ok": 6, "out_of_memory": 1},
        "running": (held(), held(host="gpu-7", pid=99, label="")),
        "submitted": 16,
        "pace": pace_of(begun),
    }
    return Snapshot(**{**values, **changes})


def test_a_running_sweep_and_a_status_are_the_golden_ones_and_tell_no_more_than_is_known():
    assert "\n".join(view_lines(standing())) + "\n" == (GOLDEN / "sweep_live.txt").read_text()
    assert view_lines(standing(total=0)) == ["sweep  starting, 2 min"]
    lines = view_lines(standing(usd=None, left=0, running=()))
    assert [line.split()[0] for line in lines] == ["sweep", "ended", "time"]
    assert lines[-1] == "time   2 min"
    text = "\n".join(snapshot_lines(snapshot(), "the server is away")) + "\n"
    assert text == (GOLDEN / "sweep_status.txt").read_text()
    document = snapshot_document(snapshot(), "the server is away")
    assert_keeps(document, "sweep-status")
    assert document == json.loads((GOLDEN / "sweep_status.json").read_text())


@pytest.mark.parametrize("left", [0, 1, 23, 24])
def test_it_fits_a_screen_however_much_runs(left):
    counts = dict.fromkeys(Status, 4)
    lines = view_lines(standing(left=left, counts=counts, running=(running(name="n" * 90),) * 40))
    assert len(lines) <= 14
    assert max(map(len, lines)) <= 100
    assert lines[-1].strip() == "and 32 more"


def test_nothing_is_drawn_where_it_cannot_be_drawn_again(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert is_terminal(Screen())
    assert not is_terminal(io.StringIO())
    assert not is_terminal(None)
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(Screen())


@pytest.mark.parametrize("no_color", [{}, {"NO_COLOR": "1"}])
def test_the_cursor_is_back_after_ctrl_c_and_no_colour_is_no_colour(no_color):
    ours, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLORTERM": "", **no_color}
    command = [sys.executable, "-c", DRAWING]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    seen = all_of(ours)
    process.wait()
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert ("\x1b[33m" in seen) == (not no_color)


def test_the_rate_of_a_cold_first_minute_stands_beside_the_trials():
    row = measurement(environment={"pace": {"first_minute_samples_per_second": 95.0}})
    line = result_line(Progress(done=1, total=1, skipped=0), row)
    assert line.endswith("40 samples/s (95 in the first minute)")


GRID = "--networks resnet50 --tasks training --vcpus 1 --memory 4GiB --disks gp3"
ON_AWS = (*GRID.split(), *shlex.split("--on aws --instance g4dn.xlarge --budget 5USD --owner ada"))
# As <aws.scheduler.scheduled-time> is written.
FIRST, SECOND = "2026-11-16T02:00:00Z", "2026-11-23T02:00:00Z"


def named(monkeypatch, due, *more):
    """The id of the sweep that a container starts which was due then."""
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", due)
    context = sweep_run.make_context("advisor sweep run", [*ON_AWS, *more])
    since = context.params["fresh_since"]
    (launch,) = launches(question_from(SweepRun, context.params), since)
    return sweep_id(launch)


@pytest.mark.parametrize("more", [(), ("--sweep-id", "weekly")])
def test_each_week_is_a_sweep_of_its_own_and_a_retry_goes_on_with_its_own(monkeypatch, more):
    first = named(monkeypatch, FIRST, *more)
    assert named(monkeypatch, FIRST, *more) == first
    assert named(monkeypatch, "2026-11-16T03:00:00+01:00", *more) == first
    assert named(monkeypatch, SECOND, *more) != first
    assert named(monkeypatch, "", *more) == named(monkeypatch, "", *more) != first


def test_a_commands_words_win_over_a_time_and_what_is_none_is_told_but_to_no_schedule(
    monkeypatch, stderr, tmp_path, shown
):
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", FIRST)
    context = sweep_run.make_context("run", [*ON_AWS, "--fresh-since", SECOND])
    assert context.params["fresh_since"].day == 23
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", "<aws.scheduler.scheduled-time>")
    assert "--fresh-since" in stderr("sweep", "run", *ON_AWS)
    monkeypatch.setenv("ADVISOR_FRESH_SINCE", FIRST)
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path / 'x.sqlite'}")
    add = ("schedule", "add", "--cron", "0 3 * * 1", "--timezone", "UTC", "--")
    assert "fresh-since" not in shown(*add, "sweep", "run", "--preset", "small")
