"""When a trial has begun on a node: once the node has its data, and room for it. Its deadline runs
from there."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.sweeps.datasets.cache_room import LOCK
from advisor.sweeps.datasets.node_cache import cached_data
from advisor.sweeps.executors.ray.task import NODE, measuring_task
from advisor.sweeps.formats.serialization import measurement_from_dict, trial_to_dict
from advisor.sweeps.machine.size import allowed_cpus, machine_size
from advisor.sweeps.trial.placement.taking import placed
from tests.sweeps.builders import measurement, resources, trial

WHOLE = resources(vcpus=float(len(allowed_cpus())))


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def answers_of(one, measure=None):
    """What a node answers for a trial, one after the other."""
    return closing(measuring_task(measure, on_cluster=True)(trial_to_dict(one), True))


def row_for(one):
    return replace(measurement(), trial=one)


def test_a_trial_begins_when_its_node_has_room_for_it(pool):
    """A node may have declared more trials at a time than it has cores."""
    with answers_of(trial(resources=WHOLE)) as answers, ExitStack() as others:
        others.enter_context(placed(WHOLE.vcpus))
        first = pool.submit(next, answers)
        with pytest.raises(TimeoutError):
            first.result(timeout=1.0)
        others.close()
        assert NODE in first.result(timeout=60)


def test_a_trial_begins_when_its_node_has_its_data(pool, tmp_path, monkeypatch):
    """Somebody else brings them now."""
    monkeypatch.setenv("ADVISOR_DATA_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "far" / "photos"
    place.mkdir(parents=True)
    (place / "a.jpg").write_bytes(b"picture")
    planned = trial(dataset_path=f"file://{place}")
    with cached_data(planned.dataset_path):
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
