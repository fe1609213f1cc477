"""Events of trials, the log that they lie in, and one trial's story out of it."""

import errno
import io
import json
import logging
import shutil
import subprocess
import sys
import time
from contextlib import closing
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Status
from advisor.errors import DataError
from advisor.store.measurements import SqlStore
from advisor.sweeps.events import DEBUG, WARNING, collected, emit, forward_all, handled, subscribe
from advisor.sweeps.run.runner import run_sweep
from advisor.sweeps.trial.child import started_worker
from advisor.sweeps.trial.trial_process import measure_trial
from advisor.sweeps.watching import logfile
from tests.rows import table
from tests.sweeps.builders import AtOnce, measurement, resources, trial

CASES = table("sweeps_cases")

TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in (1, 2)]
SPOILED = {"status": "contaminated", "started_at": "2026-07-20T09:59:00+00:00"}
SPOILED["environment"] = {"other_cores": 0.7}


class Attempting(AtOnce):
    """Each trial once spoiled by neighbours, as a process executor would."""

    def execute(self, trials):
        for entry in trials:
            rows = [measurement(trial=entry, status=Status.CONTAMINATED), measurement(trial=entry)]
            yield measure_trial(entry, attempt=lambda _trial, rows=rows: rows.pop(0))


def test_a_sweep_tells_each_trials_story_from_its_attempts_to_its_storing(tmp_path, monkeypatch):
    monkeypatch.setattr("advisor.sweeps.trial.trial_process.busy_share", lambda: 0.0)
    with closing(SqlStore("sqlite://")) as store, logfile.logged(tmp_path / "l"):
        run_sweep(TRIALS, Attempting(), store)
    story = logfile.story_of(logfile.log_lines(tmp_path / "l"), TRIALS[1].trial_id[:8])
    assert {line["trial_id"] for line in story} == {TRIALS[1].trial_id}
    assert [line["event"] for line in story] == ["attempt_began", "attempt_ended"] * 2 + ["stored"]
    assert [line["attempt"] for line in story[:4]] == [1, 1, 2, 2]
    assert [line.get("status") for line in story][:4] == [None, "contaminated", None, "ok"]
    assert story[1]["other_cores"] == 0.25


def test_a_story_is_in_the_order_in_which_it_happened_not_in_which_it_arrived(tmp_path):
    with collected() as expected:
        measure_trial(TRIALS[0], attempt=lambda entry: measurement(trial=entry))
    late, early = ({**expected[0], "at": index} for index in (20.0, 10.0))
    with logfile.logged(tmp_path / "l"):
        forward_all([late, early])
    times = [line["time"] for line in logfile.story_of(logfile.log_lines(tmp_path / "l"), TRIALS[0].trial_id)]
    assert times == ["1970-01-01T00:00:10.000Z", "1970-01-01T00:00:20.000Z"]


def test_torn_and_foreign_lines_are_left_out(tmp_path):
    good = {"time": "2026-07-20T10:00:00Z", "event": "stored", "trial_id": "abcd"}
    text = f'{json.dumps(good)}\n{{"time": "20\n[1]\n\x00\x00\n"stored"\n'
    (tmp_path / "l").write_text(text)
    older = {**good, "event": "older"}
    (tmp_path / "l.1").write_text(json.dumps(older) + "\n")
    assert list(logfile.log_lines(tmp_path / "l")) == [older, good]
    assert list(logfile.log_lines(tmp_path / "none")) == []


def test_the_text_of_a_story_says_when_how_long_after_the_first_what_and_of_many_trials_whose_it_is():
    whose = {"trial_id": "a", "level": "info", "node": "n", "pid": 1}
    limits = {"cpus": [0, 1], "limited_by": "cgroup-v2", "read_iops": None, "memory_mib": 1024.0}
    story = [
        {"time": "2026-07-20T10:00:00.000Z", "event": "attempt_began", **whose, "attempt": 1},
        {"time": "2026-07-20T10:00:12.340Z", "event": "limits_on", **limits},
    ]
    limited = "limits switched on: cpus 0 1, limited by cgroup-v2, memory mib 1024"
    begun = "2026-07-20 10:00:00      +0.0 s  attempt begun: attempt 1"
    assert logfile.story_text(story) == [begun, f"2026-07-20 10:00:12     +12.3 s  {limited}"]
    story = [
        {"time": "2026-07-20T10:00:00Z", "event": "sweep_began", "trials": 2},
        {"time": "2026-07-20T10:00:01Z", "event": "began", "trial_id": "0123456789abcdef"},
    ]
    assert logfile.story_text(story, of_many=True) == [
        "2026-07-20 10:00:00      +0.0 s            sweep began: trials 2",
        "2026-07-20 10:00:01      +1.0 s  01234567  begun",
    ]
    row = measurement(attempts=(SPOILED,), environment={"steady": True})
    events = [f"{line['event']} {line.get('status', '')}".strip() for line in logfile.row_story(row)]
    assert events == ["planned", "attempt_ended contaminated", "steady", "attempt_ended ok", "stored"]
    assert all(logfile.story_text(logfile.row_story(row)))
    failed = measurement(status=Status.FAILED, step_seconds=(), reason="no such device")
    assert "reason no such device" in "\n".join(logfile.story_text(logfile.row_story(failed)))


# What happens to trials is told in order, carried between processes, and costs nothing unheard.

UNHEARD = """
from advisor.sweeps.events import emit, WARNING
emit("attempt_ended", level=WARNING, reason="nobody asked")
"""


def test_what_nobody_listens_to_is_printed_nowhere():
    done = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_events_survive_the_way_from_another_process():
    with collected() as there:
        emit("steady", trial_id="abc", steps=20, seconds=4.5)
        emit("stored", trial_id="abc", level=WARNING)
    assert json.loads(json.dumps(there)) == there
    here = []
    with subscribe(here.append):
        forward_all(there)
    told = [(entry.event, entry.trial_id, entry.level) for entry in here]
    assert told == [("steady", "abc", logging.INFO), ("stored", "abc", logging.WARNING)]
    assert (here[0].facts, here[0].at) == ({"steps": 20, "seconds": 4.5}, there[0]["at"])
    with collected() as event:
        emit("loaded", trial_id="abc")
    script = f"print({json.dumps({'event': event[0]})!r}); print('\"ready\"')"
    with collected() as expected, started_worker((sys.executable, "-c", script)) as worker:
        assert worker.receive(1e9) == "ready"
    assert [line["event"] for line in expected] == ["loaded"]


# The log: a JSON object a line, bounded, shared, and never the end of a sweep.

WRITER = """
import sys
from pathlib import Path
from advisor.sweeps.events import emit, handled
from advisor.sweeps.watching.logfile import SharedFile
with handled(SharedFile(Path(sys.argv[1]))):
    for number in range(200):
        emit("stored", trial_id=f"{sys.argv[2]}-{number}", text="x" * 50)
"""


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_json_does_not_have_is_null_and_no_password_is_written(tmp_path):
    path, where = tmp_path / "deep" / "log.jsonl", {"url": "postgresql://me:secret@db/x"}
    with logfile.logged(path):
        emit("x", trial_id="abc", level=WARNING, rate=float("nan"), where=where, of=[tmp_path], seconds=2.5)
    (line,) = written(path)
    assert datetime.fromisoformat(line.pop("time")).tzinfo
    assert line.pop("node")
    assert line.pop("pid")
    expected = {"level": "warning", "event": "x", "trial_id": "abc", "rate": None, "seconds": 2.5}
    assert line == {**expected, "where": {"url": "postgresql://me:***@db/x"}, "of": [str(tmp_path)]}


def test_the_level_holds_back_what_is_below_it(tmp_path):
    with logfile.logged(tmp_path / "l", logging.WARNING):
        emit("heartbeat", level=DEBUG)
        emit("stored")
        emit("heartbeat_failed", level=WARNING)
    assert [line["event"] for line in written(tmp_path / "l")] == ["heartbeat_failed"]


def test_warnings_of_sweeps_are_logged_and_still_told(tmp_path, capsys):
    with logfile.logged(tmp_path / "l"):
        logging.getLogger("advisor.sweeps.run.runner").warning("waiting for %d trials", 2)
    (line,) = written(tmp_path / "l")
    assert (line["event"], line["text"]) == ("message", "waiting for 2 trials")
    assert capsys.readouterr().err == "waiting for 2 trials\n"


def test_a_full_one_is_set_aside_when_a_sweep_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(logfile, "MOST_BYTES", 200)
    for number in range(12):
        with logfile.logged(tmp_path / "l"):
            emit("stored", trial_id=str(number))
    assert {path.name for path in tmp_path.iterdir()} == {"l", "l.1"}
    assert [line["trial_id"] for line in logfile.log_lines(tmp_path / "l")][-1] == "11"


def test_drivers_that_share_it_lose_no_line_and_tear_none(tmp_path):
    """While one of them sets it aside."""
    path = tmp_path / "l"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    while not path.exists():
        time.sleep(0.01)
    path.replace(logfile.log_files(path)[0])
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    seen = [line["trial_id"] for line in logfile.log_lines(path)]
    assert len(seen) == len(set(seen)) == 600
    for name in "abc":
        mine = [int(entry.partition("-")[2]) for entry in seen if entry.startswith(name)]
        assert mine == sorted(mine)


def test_a_log_that_cannot_be_written_is_told_once_and_ends_nothing(tmp_path, capsys):
    class Full(io.StringIO):
        def write(self, _text):
            raise OSError(errno.ENOSPC, "No space left on device")

    handler = logfile.SharedFile(tmp_path / "l")
    handler._open = Full
    (tmp_path / "l").unlink()
    with closing(handler), handled(handler):
        emit("stored")
        emit("stored")
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_a_log_that_cannot_be_made_is_refused_and_one_that_cannot_be_opened_anew_ends_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--log-file"), logfile.logged(tmp_path / "file" / "l"):
        pass
    folder = tmp_path / "f"
    with logfile.logged(folder / "l"):
        emit("stored")
        shutil.rmtree(folder)
        emit("stored")
        emit("stored")
        folder.mkdir()
        emit("began")
    assert [line["event"] for line in written(folder / "l")] == ["began"]


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)
PASSWORDS = st.text(st.characters(codec="ascii", exclude_categories=("Z", "C")), min_size=1, max_size=20)


@given(WORDS, PASSWORDS, WORDS)
def test_a_url_never_shows_its_password(user, password, host):
    secret = f"%{password}%"  # marked, or it may stand elsewhere by chance
    shown = logfile.without_secrets(f"cannot reach postgresql://{user}:{secret}@{host}:5432/db now")
    assert secret not in shown
    assert f"postgresql://{user}:***@{host}:5432/db now" in shown


@pytest.mark.parametrize(("text", "shown"), CASES["settings_do_not_either_and_what_holds_no_secret_stays"])
def test_settings_do_not_either_and_what_holds_no_secret_stays(text, shown):
    assert logfile.without_secrets(text) == (shown or text)
