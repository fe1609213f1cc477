"""A sweep that measures anew what is older than a given time."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import RETRIED, current_rows, run_sweep
from advisor.sweeps.quality.issues import is_stale
from tests.sweeps.builders import TIME_BOX, AtOnce, resources, trial

TRIALS = [trial(resources=resources(memory_mib=size)) for size in (1024.0, 2048.0, 3072.0)]
MONDAY = datetime(2026, 11, 16, 3, tzinfo=UTC)
WEEK = timedelta(days=7)


def at(moment, **options):
    """Measures at a moment of its own."""
    return AtOnce(started_at=moment.isoformat(), **options)


@pytest.fixture
def store():
    store = SqlStore("sqlite://")
    run_sweep(TRIALS, at(MONDAY), store)
    yield store
    store.close()


def starts(rows):
    return {row.started_at for row in rows}


def test_what_is_older_is_measured_again_and_stays_on_record(store):
    later = MONDAY + WEEK
    assert run_sweep(TRIALS, at(later), store, since=later).measured == 3
    assert starts(store.all()) == {later.isoformat()}
    assert [row.trial for row in store.earlier()] == TRIALS
    assert starts(store.earlier()) == {MONDAY.isoformat()}
    assert len(store.earlier([TRIALS[1].trial_id])) == 1


def test_what_is_fresh_is_not_measured_again(store):
    assert run_sweep(TRIALS, at(MONDAY), store, since=MONDAY).measured == 0
    assert current_rows(TRIALS, store, since=MONDAY + WEEK) == {}


def test_an_interrupted_sweep_goes_on_where_it_stopped(store):
    later = MONDAY + WEEK
    with pytest.raises(KeyboardInterrupt):
        run_sweep(TRIALS, at(later, stop_after=2), store, since=later)
    again = at(later)
    run_sweep(TRIALS, again, store, since=later)
    assert again.given == TRIALS[2:]


@pytest.mark.parametrize("status", sorted(RETRIED))
def test_a_run_that_ends_badly_does_not_take_a_good_rows_place(store, status):
    later = MONDAY + WEEK
    first_ends_badly = at(later, of=lambda number: {"status": status if number == 1 else Status.OK})
    assert run_sweep(TRIALS, first_ends_badly, store, since=later).measured == 3
    kept = store.read([TRIALS[0].trial_id]).measurements[0]
    assert (kept.status, kept.started_at) == (Status.OK, MONDAY.isoformat())
    assert kept.attempts[-1]["status"] == status.value
    assert len(store.earlier()) == 2
    # The same command again tries what is still old.
    again = at(later)
    run_sweep(TRIALS, again, store, since=later)
    assert again.given == TRIALS[:1]


def test_repeats_are_measured_anew_together():
    repeated = [trial(plan={**TIME_BOX, "repeats": 2})]
    store, later = SqlStore("sqlite://"), MONDAY + WEEK
    run_sweep(repeated, at(MONDAY), store)
    run_sweep(repeated, at(later), store, since=later)
    (row,) = store.all()
    assert row.started_at == later.isoformat()
    assert [one["started_at"] for one in row.repeats] == [later.isoformat()]
    (before,) = store.earlier()
    assert len(before.repeats) == 1
    store.close()


def test_a_further_run_leaves_nothing_among_the_earlier(store):
    more = [replace(one, plan={**one.plan, "repeats": 2}) for one in TRIALS]
    run_sweep(more, at(MONDAY), store)
    run_sweep(TRIALS, at(MONDAY), store, runs_of=lambda _trial: 2)
    assert store.earlier() == []


@pytest.mark.parametrize(
    ("started_at", "older"),
    [
        ("2026-11-16T02:59:59+00:00", True),
        ("2026-11-16T03:00:00+00:00", False),
        ("2026-11-16T03:30:00+01:00", True),
        ("2026-11-16T03:00:00", False),
        ("then", True),
        ("", True),
    ],
)
def test_a_row_that_does_not_tell_its_time_is_old(started_at, older):
    assert is_stale(started_at, MONDAY) is older
    assert not is_stale(started_at, None)
