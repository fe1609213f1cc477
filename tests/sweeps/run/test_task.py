"""When a trial has begun on a node: once the node has its data, and room for it. Its deadline runs
from there."""

from __future__ import annotations

import fcntl
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.models.performance.usable import why_not
from advisor.sweeps.datasets.node_cache import LOCK, cached_data
from advisor.sweeps.events import subscribe
from advisor.sweeps.formats import measurement_from_dict, measurement_to_dict, to_jsonl, trial_to_dict
from advisor.sweeps.machine.environment import allowed_cpus, machine_size
from advisor.sweeps.run.ray.executor import NODE, measuring_task
from advisor.sweeps.run.runner import InlineExecutor, ProcessExecutor
from advisor.sweeps.trial.placement import placed
from benchmarks.kills.replaying import answer_of, replayed, unmarked
from tests.sweeps.builders import measurement, resources, trial

WHOLE = resources(vcpus=float(len(allowed_cpus())))


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def answers_of(entry, measure=None):
    """What a node answers for a trial, one after the other."""
    return closing(measuring_task(measure, on_cluster=True)(trial_to_dict(entry), True))


def row_for(entry):
    return replace(measurement(), trial=entry)


def test_a_trial_begins_when_its_node_has_room_for_it(pool):
    """A node may have declared more trials at a time than it has cores."""
    with answers_of(trial(resources=WHOLE)) as answers, ExitStack() as others:
        others.enter_context(placed(WHOLE.vcpus))
        first = pool.submit(next, answers)
        with pytest.raises(TimeoutError):
            first.result(timeout=1.0)
        others.close()
        assert NODE in first.result(timeout=60)


def test_a_trial_begins_when_its_node_has_its_data(pool, address, tmp_path):
    """Somebody else brings them now."""
    planned = trial(dataset_path=address)
    with cached_data(address):
        pass
    (lock,) = (tmp_path / "cache").glob(f"photos-*{LOCK}")
    with answers_of(planned, row_for) as answers, lock.open("ab") as filling:
        fcntl.flock(filling, fcntl.LOCK_EX)
        first = pool.submit(next, answers)
        with pytest.raises(TimeoutError):
            first.result(timeout=1.0)
        fcntl.flock(filling, fcntl.LOCK_UN)
        assert NODE in first.result(timeout=60)
        row = measurement_from_dict(next(answers))
    assert row.trial.dataset_path == planned.dataset_path
    assert row.environment["data_cache"]["files"] == 1


def test_what_a_node_cannot_hold_fails_at_once_whatever_it_has_declared():
    """Neither a larger machine nor other trials would be waited for."""
    too_large = resources(memory_mib=2 * machine_size().memory_mib)
    with answers_of(trial(resources=too_large)) as answers:
        assert NODE in next(answers)
        row = measurement_from_dict(next(answers))
    assert row.status is Status.FAILED
    assert "start a larger node" in row.reason


# Data at an address come to the machine that measures; a row says so, its trial is the same.


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "far" / "photos"
    path.mkdir(parents=True)
    (path / "a.jpg").write_bytes(b"picture")
    return f"file://{path}"


def measure(entry):
    """As a worker would: it reads the data set on a path of this machine."""
    assert (Path(entry.dataset_path) / "a.jpg").read_bytes() == b"picture"
    return replace(measurement(), trial=entry, environment={"own": 1})


def test_the_trial_runs_on_a_path_and_its_row_keeps_the_address(address):
    planned = replace(trial(), dataset_path=address)
    executor, events = ProcessExecutor(measure), []
    with subscribe(events.append):
        first, second = executor.execute([planned, planned])
    executor.close()
    assert first.trial == planned
    assert first.trial.trial_id == trial().trial_id
    facts = [row.environment["data_cache"] for row in (first, second)]
    assert [fact["fetched_bytes"] for fact in facts] == [7, 0]
    assert facts[0]["fill_seconds"] == facts[1]["fill_seconds"] > 0
    assert first.environment["own"] == 1
    assert [event.event for event in events].count("data_fetched") == 1
    assert measurement_from_dict(measurement_to_dict(first)) == first


def test_data_that_cannot_be_brought_fail_the_trial_and_not_the_sweep(address, monkeypatch):
    """Libraries of stores raise exceptions of their own."""
    planned = replace(trial(), dataset_path=f"{address}-gone")
    (row,) = InlineExecutor(measure).execute([planned])
    assert row.status is Status.FAILED
    assert "nothing at" in row.reason
    assert row.trial == planned

    def refused(_system, _path):
        raise RuntimeError("the token has expired")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.info", refused)
    (row,) = InlineExecutor(measure).execute([replace(trial(), dataset_path=address)])
    assert row.status is Status.FAILED
    assert "the token has expired" in row.reason


def test_a_path_of_this_machine_is_left_as_it_is(tmp_path):
    planned = replace(trial(), dataset_path=str(tmp_path))
    (row,) = InlineExecutor(lambda entry: replace(measurement(), trial=entry)).execute([planned])
    assert "data_cache" not in row.environment
    assert row.trial.dataset_path == str(tmp_path)


# A replay takes all that a measurement takes, and never passes for one.

ROWS = [
    measurement(trial=trial(resources=resources(memory_mib=size)), environment={"cpu_model": "X"})
    for size in (512.0, 600.0)
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(to_jsonl(ROWS))
    return path


def test_trials_are_answered_from_the_file_through_real_processes_and_one_that_is_not_in_it_fails(file):
    rows = list(ProcessExecutor(replayed(file, 0.0)).execute([entry.trial for entry in ROWS]))
    assert [unmarked(row).step_seconds for row in rows] == [entry.step_seconds for entry in ROWS]
    assert [unmarked(row).environment for row in rows] == [{"cpu_model": "X"}] * 2
    for row in rows:
        assert row.environment["replayed_from"] == str(file)
        assert why_not(row, {"googlenet"}) == "replayed from a file, not measured"
        assert not why_not(unmarked(row), {"googlenet"})
    (row,) = ProcessExecutor(replayed(file, 0.0)).execute([trial(batch_size=77)])
    assert row.status is Status.FAILED
    assert "has no measurement of the trial" in row.reason
    with pytest.raises(LookupError):
        answer_of([], ROWS[0].trial, "empty")
