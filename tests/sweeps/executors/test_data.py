"""Data at an address come to the machine that measures; a row says so, its trial is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.sweeps.events import subscribe
from advisor.sweeps.executors.data import with_data
from advisor.sweeps.executors.process import ProcessExecutor
from advisor.sweeps.formats.serialization import measurement_from_dict, measurement_to_dict
from tests.sweeps.builders import measurement, trial


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATA_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "far" / "photos"
    place.mkdir(parents=True)
    (place / "a.jpg").write_bytes(b"picture")
    return f"file://{place}"


def measure(one):
    """As a worker would: it reads the data set on a path of this machine."""
    assert (Path(one.dataset_path) / "a.jpg").read_bytes() == b"picture"
    return replace(measurement(), trial=one, environment={"own": 1})


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


def test_data_that_cannot_be_brought_fail_the_trial_with_the_way_out(address):
    planned = replace(trial(), dataset_path=f"{address}-gone")
    row = with_data(measure)(planned)
    assert row.status is Status.FAILED
    assert "nothing at" in row.reason
    assert row.trial == planned


def test_a_login_that_expired_fails_the_trial_and_not_the_sweep(address, monkeypatch):
    """Libraries of stores raise exceptions of their own."""

    def refused(_system, _path):
        raise RuntimeError("the token has expired")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.info", refused)
    row = with_data(measure)(replace(trial(), dataset_path=address))
    assert row.status is Status.FAILED
    assert "the token has expired" in row.reason


def test_a_path_of_this_machine_is_left_as_it_is(tmp_path):
    planned = replace(trial(), dataset_path=str(tmp_path))
    row = with_data(lambda one: replace(measurement(), trial=one))(planned)
    assert "data_cache" not in row.environment
    assert row.trial.dataset_path == str(tmp_path)
