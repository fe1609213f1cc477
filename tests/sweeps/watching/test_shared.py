"""What the store tells those who only look."""

import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.trial.ownership import this_process
from advisor.sweeps.watching.shared import Snapshot, look_at, pace_of
from tests.postgresql import DATABASES
from tests.sweeps.builders import measurement, resources, trial
from tests.sweeps.watching.builders import held

TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in range(1, 6)]
IDS = [one.trial_id for one in TRIALS]
MIGRATED = Path(__file__).parents[2] / "data" / "measurements-0008.sqlite"
NOON = datetime(2026, 7, 20, 12, tzinfo=UTC)


@pytest.fixture(params=DATABASES)
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/m.sqlite"
    return request.getfixturevalue("postgresql").new_database()


def after(*seconds):
    return [(NOON + timedelta(seconds=one)).isoformat() for one in seconds]


def test_it_tells_what_runs_what_is_submitted_what_is_done_and_what_is_left(url):
    owner = this_process()
    with closing(SqlStore(url)) as store:
        store.append_all([measurement(trial=TRIALS[0])])
        store.append_all([measurement(trial=TRIALS[1], status=Status.FAILED)])
        store.leases.take({IDS[2]: "", IDS[3]: ""}, owner)
        store.leases.begin(IDS[2], owner, "the third")
        with closing(SqlStore(url, reading=True)) as reading:
            described, everything = look_at(reading, IDS), look_at(reading)
    assert (described.total, described.left) == (5, 3)
    assert described.counts == {"ok": 1, "failed": 1}
    assert (everything.total, everything.left) == (4, 2)
    assert described.submitted == 1
    (one,) = described.running
    assert (one.trial_id, one.label, one.pid) == (IDS[2], "the third", owner.pid)
    assert not described.is_over


def test_leases_on_trials_of_other_sweeps_are_none_of_a_described_one(url):
    with closing(SqlStore(url)) as store:
        store.leases.take({"another": ""}, this_process())
        found = look_at(store, IDS)
    assert found.running == ()
    assert found.total == len(IDS)


def test_a_retried_trial_is_counted_once(url):
    with closing(SqlStore(url)) as store:
        store.append_all([measurement(trial=TRIALS[0], status=Status.FAILED)])
        store.leases.take({IDS[0]: ""}, this_process())
        found = look_at(store)
    assert (found.total, found.left, found.submitted) == (1, 0, 1)


def test_looking_changes_nothing_and_tells_the_rows(tmp_path):
    path = Path(shutil.copy(MIGRATED, tmp_path / "m.sqlite"))
    before = path.read_bytes()
    with closing(SqlStore(f"sqlite:///{path}", reading=True)) as store:
        found = look_at(store)
    assert found.total == 2
    assert found.running == ()
    assert path.read_bytes() == before


def test_where_there_is_no_database_nothing_is_done_and_no_file_made(tmp_path):
    with closing(SqlStore(f"sqlite:///{tmp_path}/m.sqlite", reading=True)) as store:
        found = look_at(store, IDS)
    assert (found.total, found.left, found.counts) == (5, 5, {})
    assert list(tmp_path.iterdir()) == []


def test_the_pace_is_that_of_the_latest_trials_of_all_drivers():
    pace = pace_of(after(*range(0, 400, 20)))
    assert pace.seconds_a_trial == 20
    assert pace_of([*after(*range(0, 400, 20)), *after(*range(405, 605, 10))]).seconds_a_trial == 10


def test_a_break_of_the_sweep_is_no_part_of_the_pace():
    assert pace_of(after(0, 10, 20, 5000, 5030, 5060)).seconds_a_trial == 30


@pytest.mark.parametrize("moments", [[], ["", "soon"], after(0, 10), after(5, 5, 5)])
def test_too_little_is_no_pace(moments):
    assert pace_of(moments) is None


@given(st.lists(st.integers(0, 10**6), max_size=40))
def test_a_pace_is_positive_whatever_the_order(seconds):
    pace = pace_of(after(*seconds))
    assert pace == pace_of(after(*sorted(seconds)))
    assert pace is None or (pace.seconds_a_trial > 0 and pace.trials >= 3)


def snapshot(**changes):
    values = {
        "at": NOON,
        "database": "db",
        "total": 5,
        "counts": {"ok": 2},
        "running": (held(),),
        "pace": pace_of(after(0, 10, 20)),
    }
    return Snapshot(**{**values, **changes})


def test_the_end_is_expected_by_the_pace_while_somebody_works():
    assert snapshot().expected_end == NOON + timedelta(seconds=30)
    assert snapshot(running=()).expected_end is None
    assert snapshot(counts={"ok": 5}).expected_end is None
    assert snapshot(pace=None).expected_end is None
    far = replace(snapshot().pace, seconds=1e15)
    assert snapshot(pace=far).expected_end is None
