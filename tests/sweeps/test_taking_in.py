"""Rows of elsewhere come into a store, and take the place of what a sweep was to replace."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from advisor.domain import Status
from sweeps.repeating import run_facts
from sweeps.store import SqlStore
from sweeps.taking_in import take_in
from tests.sweeps.builders import measurement

MONDAY, TUESDAY = "2026-11-16T03:00:00+00:00", "2026-11-17T03:00:00+00:00"
DUE = datetime(2026, 11, 17, tzinfo=UTC)
OLD, FRESH = measurement(started_at=MONDAY), measurement(started_at=TUESDAY)


@pytest.fixture
def store():
    store = SqlStore("sqlite://")
    store.append(OLD)
    yield store
    store.close()


def test_without_a_time_a_row_keeps_its_place(store):
    take_in([FRESH], store)
    assert store.all() == [OLD]


def test_a_fresh_row_takes_the_place_of_an_older_one_once(store):
    for _ in range(2):
        take_in([FRESH], store, DUE)
        assert store.all() == [FRESH]
        assert store.earlier() == [OLD]


def test_a_row_from_before_that_time_replaces_nothing(store):
    take_in([replace(OLD, step_seconds=(9.0,))], store, DUE)
    assert store.all() == [OLD]


def test_a_further_run_of_the_fresh_row_joins_it_in_the_same_batch(store):
    repeated = replace(FRESH, repeats=(run_facts(FRESH),))
    take_in([FRESH, repeated], store, DUE)
    assert store.all() == [repeated]
    assert store.earlier() == [OLD]


def test_a_run_that_ended_badly_is_kept_beside_the_good_row_once(store):
    bad = replace(FRESH, status=Status.CONTAMINATED, reason="neighbours")
    for _ in range(2):
        take_in([bad], store, DUE)
        (row,) = store.all()
        assert (row.status, row.started_at) == (Status.OK, MONDAY)
        assert [one["status"] for one in row.attempts] == ["contaminated"]
    assert store.earlier() == []
