"""A started sweep is found again from its folder, whatever was killed between two of its files."""

from datetime import UTC, datetime, timedelta

import pytest
from advisor.runs.jobs import records
from advisor.runs.jobs.running import run_job

from advisor.errors import UsageError
from advisor.runs.started import JobState, OtherSweep, start_sweep, stop_sweep
from advisor.runs.started_fields import Allowed, requested_sweep
from sweeps.store.owners import columns_of, this_process

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = {"on": "here", "words": ["sweep", "run"], "fields": {}, "max_minutes": None, "planned": 1}


def a_job(now=NOW, **changes):
    return records.new_job({**ASKED, **changes}, now)


def again(job):
    return records.known_job(job.id)


def gone():
    return {**columns_of(this_process()), "started": "1", "at": NOW.isoformat()}


def alive():
    return {**columns_of(this_process()), "at": NOW.isoformat()}


def test_each_file_that_is_written_changes_what_it_is():
    job = a_job()
    assert again(job).state(NOW) is JobState.STARTING
    records.note_process(job.folder, alive())
    assert again(job).state(NOW) is JobState.RUNNING
    records.note_stop(job.folder, {"at": NOW.isoformat()})
    assert again(job).state(NOW) is JobState.STOPPING
    records.note_end(job.folder, {"state": "stopped", "exit_code": 143, "at": NOW.isoformat()})
    assert again(job).state(NOW) is JobState.STOPPED


def test_a_killed_process_is_told_apart_from_one_that_ended():
    job = a_job()
    records.note_process(job.folder, gone())
    assert again(job).state(NOW) is JobState.LOST


def test_a_sweep_whose_server_died_before_starting_it_is_lost_after_a_while():
    job = a_job()
    assert again(job).state(NOW + timedelta(hours=1)) is JobState.LOST
    with pytest.raises(UsageError, match="lost"):
        run_job(job.id)


@pytest.mark.parametrize("name", ["", "..", "../x", "20261121T120000-0000000", "lock"])
def test_only_ids_are_folders(name):
    a_job()
    with pytest.raises(UsageError):
        records.known_job(name)


def test_the_latest_come_first_and_the_oldest_that_ended_are_forgotten(monkeypatch):
    monkeypatch.setattr(records, "KEPT", 2)
    jobs = [a_job(NOW + timedelta(seconds=i)) for i in range(4)]
    for job in jobs[:3]:
        records.note_end(job.folder, {"state": "done", "exit_code": 0, "at": NOW.isoformat()})
    records.forget_old(NOW)
    assert [job.id for job in records.all_jobs()] == [one.id for one in jobs[:0:-1]]


def sweep(**changes):
    grid = {
        "networks": "googlenet", "tasks": "inference", "vcpus": 1, "memory": "2GiB",
        "disks": "gp3", "accelerator": "emulated:T4",
    }  # fmt: skip
    return requested_sweep({**grid, **changes}, Allowed())


@pytest.fixture
def never_spawned(monkeypatch):
    spawned = []
    monkeypatch.setattr("advisor.runs.started._spawn", lambda job, url: spawned.append(job))
    return spawned


def test_a_second_sweep_is_refused_by_the_name_of_the_first(never_spawned):
    first = start_sweep(sweep(), {})
    with pytest.raises(OtherSweep) as refused:
        start_sweep(sweep(), {})
    assert refused.value.job_id == first.id
    assert first.id in str(refused.value)
    assert len(never_spawned) == 1


def test_a_sweep_by_hand_is_not_disturbed(never_spawned, monkeypatch):
    monkeypatch.setattr("advisor.runs.started.sweep_runs_here", lambda: True)
    with pytest.raises(OtherSweep, match="by hand"):
        start_sweep(sweep(), {})
    assert not never_spawned


def test_sweeps_on_aws_go_side_by_side_up_to_a_few(never_spawned):
    aws = sweep(accelerator=None, on="aws", instance="g4dn.xlarge", budget="1USD")
    start_sweep(sweep(), {})
    for _ in range(4):
        start_sweep(aws, {})
    with pytest.raises(OtherSweep, match="AWS"):
        start_sweep(aws, {})


def test_asking_twice_to_stop_is_asking_once(never_spawned):
    job = start_sweep(sweep(), {})
    records.note_process(job.folder, alive())
    first = stop_sweep(again(job))
    assert stop_sweep(first).stop == first.stop
    records.note_end(job.folder, {"state": "done", "exit_code": 0, "at": NOW.isoformat()})
    assert stop_sweep(again(job)).state(NOW) is JobState.DONE


def test_the_sweep_runs_where_no_other_file_is_taken_for_ours(never_spawned):
    job = start_sweep(sweep(), {"networks": "googlenet"}, max_minutes=5)
    assert job.asked["words"][:2] == ["sweep", "run"]
    assert job.asked["max_minutes"] == 5
    assert [one.name for one in job.folder.iterdir()] == ["asked.json"]
