"""What every measurement store promises, the leases in it too; on each database for real."""

import time
from contextlib import closing
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.store.measurements import SqlStore, open_store
from advisor.sweeps.measurement_store import Appended, Summary
from advisor.sweeps.trial.ownership import this_process
from tests.postgresql import DATABASES
from tests.sweeps.builders import measurement, row, trial
from tests.together import all_at_once


def latest(_row, fresh):
    return fresh


def elsewhere(owner):
    """An owner on another machine: nobody here can tell whether it still runs."""
    return replace(owner, name="elsewhere:1:0", host="elsewhere", place="other")


class TestStores:
    @pytest.fixture(params=("memory", *DATABASES))
    def place(self, request, tmp_path):
        if request.param == "memory":
            return "sqlite://"
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path}/deep/er/measurements.sqlite"
        return request.getfixturevalue("postgresql").new_database()

    @pytest.fixture
    def store(self, place):
        store = SqlStore(place, lease_seconds=1.5)
        yield store
        store.close()

    def test_rows_of_any_names_come_back_whole_in_the_order_of_writing(self, store):
        rows = [row(3072.0), row(1024.0, attempts=({"step_seconds": [0.1]},)), row(2048.0)]
        assert store.all() == []
        assert store.append_all(rows) == Appended(3, 0)
        assert store.all() == rows
        odd = trial(network=f"/{'home/' * 60}net.py:build", accelerator=f"cuda:{'é' * 94}")
        long = measurement(trial=odd)
        store.append_all([long])
        assert store.all() == [*rows, long]

    def test_rows_of_some_trials_can_be_asked_for(self, store):
        rows = [row(float(size)) for size in range(1, 8)]
        store.append_all(rows)
        wanted = [rows[5].trial.trial_id, rows[1].trial.trial_id, "no such trial"]
        assert store.read(wanted).measurements == (rows[1], rows[5])
        assert store.read([]).measurements == ()

    def test_a_trial_keeps_its_first_good_row(self, store):
        store.append_all([row(status=Status.OK)])
        for again in (row(status=Status.FAILED), row()):
            assert store.append_all([again]) == Appended(0, 0)
        assert [entry.status for entry in store.all()] == [Status.OK]

    def test_many_rows_come_in_together_and_only_failed_ones_give_way(self, store):
        good, failed = row(1024.0), row(2048.0, status=Status.FAILED, reason="x")
        store.append_all([good])
        store.append_all([failed])
        arrived = [row(1024.0, started_at="later"), row(2048.0), row(3072.0)]
        done = store.append_all(arrived)
        assert (done.added, done.replaced) == (1, 1)
        assert store.all() == [good, *arrived[1:]]
        assert store.append_all(arrived).added == 0
        assert store.append_all([]).added == 0

    def test_a_row_gives_way_to_one_that_has_its_runs_and_more(self, store):
        first, second = row(), {"step_seconds": [0.4, 0.5]}
        store.append_all([first])
        both = replace(first, repeats=(second,))
        other = replace(first, step_seconds=(0.7,), repeats=(second, second))
        assert store.append_all([other]).replaced == 0
        assert store.append_all([both]).replaced == 1
        assert store.append_all([first, both]).replaced == 0
        assert store.all() == [both]

    def test_a_row_from_before_a_moment_gives_way_to_one_from_after_it(self, store):
        """What was measured anew elsewhere comes in; the older row stays on record."""
        moment = datetime(2026, 11, 21, tzinfo=UTC)
        old, new = row(started_at="2026-11-20T23:00:00Z"), row(started_at="2026-11-21T00:00:00Z")
        store.append_all([old])
        failed = replace(new, status=Status.FAILED, step_seconds=(), reason="x")
        for entry, when in ((new, None), (failed, moment), (old, moment)):
            assert store.append_all([entry], since=when).replaced == 0
        assert store.append_all([new], since=moment).replaced == 1
        for entry in (new, old, row(started_at="2026-11-21T01:00:00Z")):
            assert store.append_all([entry], since=moment).replaced == 0
        assert store.all() == [new]
        assert store.earlier() == [old]

    def test_failed_trials_are_done_too(self, store):
        failed = row(status=Status.OUT_OF_MEMORY, step_seconds=(), reason="killed")
        store.append_all([failed])
        assert store.summaries()[failed.trial.trial_id].status == Status.OUT_OF_MEMORY

    def test_a_summary_tells_how_and_when_without_the_step_times(self, store):
        entry = row(status=Status.FAILED, reason="x", started_at="then")
        store.append_all([entry])
        store.append_all([row(9.0)])
        summaries = store.summaries([entry.trial.trial_id, "no such trial"])
        assert summaries == {entry.trial.trial_id: Summary("failed", "then")}
        assert set(store.summaries()) == {entry.trial.trial_id, row(9.0).trial.trial_id}

    def test_a_run_joins_its_trials_row_and_one_that_is_not_wanted_changes_nothing(self, store):
        store.append_all([row(started_at="first")])
        seen = []

        def combine(known, fresh):
            seen.append(known)
            return fresh

        assert store.join(row(started_at="second"), combine) == row(started_at="second")
        assert store.join(row(9.0), combine) == row(9.0)
        assert seen == [row(started_at="first"), None]
        assert store.join(row(started_at="third"), lambda _row, _fresh: None) is None
        assert store.all() == [row(started_at="second"), row(9.0)]

    def test_a_good_row_that_another_measurement_replaces_stays_on_record(self, store):
        first, failed = row(started_at="first"), row(9.0, status=Status.FAILED, reason="x")
        store.append_all([first, failed])
        for fresh in (row(started_at="second"), row(9.0, started_at="second")):
            store.join(fresh, latest)
        assert store.earlier() == [first]
        assert store.earlier([failed.trial.trial_id]) == []

    def test_a_trial_is_leased_to_one_owner(self, store):
        entry, other = this_process(), this_process()
        assert store.leases.take({"trial": ""}, entry)
        assert store.leases.take({"trial": ""}, entry)
        assert not store.leases.take({"trial": ""}, other)
        assert store.leases.take({"another": ""}, other)
        held = store.leases.held()
        assert (set(held), held["trial"].pid) == ({"trial", "another"}, entry.pid)
        assert 0 < held["trial"].seconds_left <= 1.5

    def test_a_lease_says_what_its_trial_is_called_and_since_when_it_runs(self, store):
        entry = this_process()
        store.leases.take({"trial": "googlenet on 1 vCPU"}, entry)
        held = store.leases.held()["trial"]
        assert (held.label, held.host, held.seconds_held) == ("googlenet on 1 vCPU", entry.host, None)
        store.leases.begin("trial", this_process(), "of somebody else")
        assert store.leases.held()["trial"].label == "googlenet on 1 vCPU"
        store.leases.begin("trial", entry, "googlenet on gpu-7")
        held = store.leases.held()["trial"]
        assert held.label == "googlenet on gpu-7"
        before = held.seconds_held
        store.leases.renew(entry)
        assert 0 <= before <= store.leases.held()["trial"].seconds_held

    def test_of_many_trials_the_free_ones_are_leased_at_once(self, store):
        entry, other = this_process(), this_process()
        assert store.leases.take({"b": "", "d": ""}, other) == {"b", "d"}
        assert store.leases.take(dict.fromkeys("abcd", ""), entry) == {"a", "c"}
        assert store.leases.take({}, entry) == set()
        assert set(store.leases.held()) == set("abcd")

    def test_a_lease_that_is_given_back_is_free(self, store):
        entry, other = this_process(), this_process()
        for name in ("a", "b", "c"):
            store.leases.take({name: ""}, entry)
        store.leases.give_back(entry, ["a"])
        assert store.leases.take({"a": ""}, other)
        assert not store.leases.take({"b": ""}, other)
        store.leases.give_back(entry)
        assert set(store.leases.held()) == {"a"}

    def test_a_lease_of_elsewhere_ends_when_it_is_not_renewed(self, store):
        far, here = elsewhere(this_process()), this_process()
        store.leases.take({"kept": ""}, far)
        begun = time.monotonic()
        while not store.leases.take({"kept": ""}, here):
            assert time.monotonic() - begun < 60
            time.sleep(0.1)
        assert time.monotonic() - begun > 1

    def test_a_renewed_lease_lasts(self, store):
        far, here = elsewhere(this_process()), this_process()
        store.leases.take({"kept": ""}, far)
        for _ in range(5):
            time.sleep(0.5)
            store.leases.renew(far)
        assert not store.leases.take({"kept": ""}, here)

    def test_the_lease_of_a_process_that_has_gone_from_here_is_free_at_once(self, store):
        gone = replace(this_process(), pid=2**22 + 1, name="gone")
        reused = replace(this_process(), started="1", name="reused")
        store.leases.take({"a": ""}, gone)
        store.leases.take({"b": ""}, reused)
        assert store.leases.held() == {}
        assert store.leases.take({"a": "", "b": ""}, this_process()) == {"a", "b"}

    def test_storing_a_run_ends_its_lease(self, store):
        owner, entry = this_process(), row()
        store.leases.take({entry.trial.trial_id: ""}, owner)
        assert store.join(entry, latest, owner=owner) == entry
        assert store.leases.held() == {}

    def test_who_lost_the_lease_is_told_when_another_stored_first(self, store):
        late, first = elsewhere(this_process()), this_process()
        trial_id = row().trial.trial_id
        store.leases.take({trial_id: ""}, late)
        store.leases.give_back(late)
        store.leases.take({trial_id: ""}, first)
        assert store.join(row(started_at="first"), latest, owner=first)
        assert store.join(row(started_at="late"), latest, owner=late) is None
        assert [entry.started_at for entry in store.all()] == ["first"]

    def test_who_lost_the_lease_still_stores_what_nobody_else_has(self, store):
        assert store.join(row(), latest, owner=this_process()) == row()

    def test_of_many_that_ask_at_once_one_gets_the_lease(self, store):
        got = all_at_once(lambda: store.leases.take({"trial": ""}, this_process()))
        assert len(list(filter(None, got))) == 1


def test_another_connection_sees_a_row_as_soon_as_append_returns(url):
    with closing(SqlStore(url)) as store, closing(SqlStore(url, reading=True)) as reading:
        assert reading.all() == []
        store.append_all([row()])
        assert len(reading.all()) == 1


def test_the_default_store_lies_in_the_users_data_folder(monkeypatch, tmp_path):
    open_store().append_all([row()])
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/other.sqlite")
    assert open_store().all() == []
