"""A replay takes all that a measurement takes, and never passes for one."""

import pytest

from advisor.domain import Status
from advisor.models.performance.usable import why_not
from advisor.sweeps.executors.process import ProcessExecutor, answer_of, replayed, unmarked
from advisor.sweeps.formats.exporting import to_jsonl
from tests.sweeps.builders import measurement, resources, trial

ROWS = [
    measurement(trial=trial(resources=resources(memory_mib=size)), environment={"cpu_model": "X"})
    for size in (512.0, 600.0)
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(to_jsonl(ROWS))
    return path


def test_trials_are_answered_from_the_file_through_real_processes(file):
    rows = list(ProcessExecutor(replayed(file, 0.0)).execute([one.trial for one in ROWS]))
    assert [unmarked(row).step_seconds for row in rows] == [one.step_seconds for one in ROWS]
    assert [unmarked(row).environment for row in rows] == [{"cpu_model": "X"}] * 2
    for row in rows:
        assert row.environment["replayed_from"] == str(file)
        assert why_not(row, {"googlenet"}) == "replayed from a file, not measured"
        assert not why_not(unmarked(row), {"googlenet"})


def test_a_trial_that_is_not_in_the_file_fails(file):
    (row,) = ProcessExecutor(replayed(file, 0.0)).execute([trial(batch_size=77)])
    assert row.status is Status.FAILED
    assert "has no measurement of the trial" in row.reason
    with pytest.raises(LookupError):
        answer_of([], ROWS[0].trial, "empty")
