"""One trial's story, in order, from whatever there is."""

import json
from contextlib import closing

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import run_sweep
from advisor.sweeps.events import collected, forward_all
from advisor.sweeps.trial.trial_process import measure_trial
from advisor.sweeps.watching.logfile import logged
from advisor.sweeps.watching.story import log_lines, row_story, story_of, story_text
from tests.sweeps.builders import measurement, resources, trial

TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in (1, 2)]
SPOILED = {
    "status": "contaminated",
    "started_at": "2026-07-20T09:59:00+00:00",
    "environment": {"other_cores": 0.7},
}


class Attempting:
    """Each trial once spoiled by neighbours, as a process executor would."""

    def execute(self, trials):
        for one in trials:
            rows = [measurement(trial=one, status=Status.CONTAMINATED), measurement(trial=one)]
            yield measure_trial(one, attempt=lambda _trial, rows=rows: rows.pop(0))

    def close(self):
        pass


def test_a_sweep_tells_each_trials_story_from_its_attempts_to_its_storing(tmp_path):
    with closing(SqlStore("sqlite://")) as store, logged(tmp_path / "l"):
        run_sweep(TRIALS, Attempting(), store)
    story = story_of(log_lines(tmp_path / "l"), TRIALS[1].trial_id[:8])
    assert {line["trial_id"] for line in story} == {TRIALS[1].trial_id}
    assert [line["event"] for line in story] == ["attempt_began", "attempt_ended"] * 2 + ["stored"]
    assert [line["attempt"] for line in story[:4]] == [1, 1, 2, 2]
    assert [line.get("status") for line in story][:4] == [None, "contaminated", None, "ok"]
    assert story[1]["other_cores"] == 0.25


def test_a_story_is_in_the_order_in_which_it_happened_not_in_which_it_arrived(tmp_path):
    with collected() as told:
        measure_trial(TRIALS[0], attempt=lambda one: measurement(trial=one))
    late, early = ({**told[0], "at": at} for at in (20.0, 10.0))
    with logged(tmp_path / "l"):
        forward_all([late, early])
    times = [line["time"] for line in story_of(log_lines(tmp_path / "l"), TRIALS[0].trial_id)]
    assert times == ["1970-01-01T00:00:10.000Z", "1970-01-01T00:00:20.000Z"]


def test_torn_and_foreign_lines_are_left_out(tmp_path):
    good = {"time": "2026-07-20T10:00:00Z", "event": "stored", "trial_id": "abcd"}
    text = f'{json.dumps(good)}\n{{"time": "20\n[1]\n\x00\x00\n"stored"\n'
    (tmp_path / "l").write_text(text)
    assert list(log_lines(tmp_path / "l")) == [good]
    assert list(log_lines(tmp_path / "none")) == []


def test_older_files_come_first(tmp_path):
    for name, event in (("l", "new"), ("l.1", "old"), ("l.2", "oldest")):
        (tmp_path / name).write_text(json.dumps({"time": "x", "event": event}) + "\n")
    assert [line["event"] for line in log_lines(tmp_path / "l")] == ["oldest", "old", "new"]


def test_the_text_says_when_how_long_after_the_first_what_and_with_which_facts():
    whose = {"trial_id": "a", "level": "info", "node": "n", "pid": 1}
    limits = {"cpus": [0, 1], "limited_by": "cgroup-v2", "read_iops": None, "memory_mib": 1024.0}
    story = [
        {"time": "2026-07-20T10:00:00.000Z", "event": "attempt_began", **whose, "attempt": 1},
        {"time": "2026-07-20T10:00:12.340Z", "event": "limits_on", **limits},
    ]
    assert story_text(story) == [
        "2026-07-20 10:00:00      +0.0 s  attempt begun: attempt 1",
        "2026-07-20 10:00:12     +12.3 s  limits switched on: cpus 0 1, limited by cgroup-v2, "
        "memory mib 1024",
    ]


def test_a_row_tells_a_story_too():
    row = measurement(attempts=(SPOILED,), environment={"steady": True})
    events = [(line["event"], line.get("status")) for line in row_story(row)]
    assert events == [
        ("planned", None),
        ("attempt_ended", "contaminated"),
        ("steady", None),
        ("attempt_ended", "ok"),
        ("stored", None),
    ]
    assert all(story_text(row_story(row)))


def test_the_row_of_a_trial_that_failed_at_once_tells_why():
    row = measurement(status=Status.FAILED, step_seconds=(), reason="no such device")
    assert "reason no such device" in "\n".join(story_text(row_story(row)))


def test_of_many_trials_each_line_says_whose_it_is():
    story = [
        {"time": "2026-07-20T10:00:00Z", "event": "sweep_began", "trials": 2},
        {"time": "2026-07-20T10:00:01Z", "event": "began", "trial_id": "0123456789abcdef"},
    ]
    assert story_text(story, of_many=True) == [
        "2026-07-20 10:00:00      +0.0 s            sweep began: trials 2",
        "2026-07-20 10:00:01      +1.0 s  01234567  begun",
    ]
