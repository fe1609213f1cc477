"""Budgets are read as users write them, and never exceeded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.runs.fields import Budget, parse_budget, seconds_of
from tests.sweeps.builders import TIME_BOX, measurement, trial


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30trials", Budget(trials=30)),
        ("1 trial", Budget(trials=1)),
        ("2h", Budget(seconds=7200)),
        ("90min", Budget(seconds=5400)),
        ("0.5 h", Budget(seconds=1800)),
    ],
)
def test_trials_and_times_are_understood(text, expected):
    assert parse_budget(text) == expected


@pytest.mark.parametrize("text", ["5USD", "$5", "5 usd"])
def test_money_buys_hours_of_the_host(text):
    budget = replace(parse_budget(text), usd_per_hour=0.5)
    assert budget.seconds_left(3600) == pytest.approx(9 * 3600)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(trials=1), "1 trial is used up"),
        (Budget(seconds=10), "10 s has no room for another trial"),
        (Budget(seconds=5400), "90 min has no room for another trial"),
        (Budget(usd=0.01), "0.01 USD has no room for another trial"),
    ],
)
def test_what_ended_it_is_told_as_it_is_written(budget, said):
    assert budget.ending == f"the budget of {said}"


@pytest.mark.parametrize("text", ["30trials", "5.1234567USD", "90min", "7s", "0.1h"])
def test_a_budget_is_written_as_it_is_read(text):
    budget = parse_budget(text)
    assert parse_budget(budget.text) == budget


@given(st.integers(0, 50), st.floats(0, 1e5), st.floats(0.1, 1e4), st.floats(1, 1e5))
def test_what_is_allowed_stays_within_the_budget(done, spent, each, seconds):
    allowed = Budget(seconds=seconds).trials_left(done, spent, each)
    assert allowed == 0 or spent + allowed * each <= seconds * (1 + 1e-9)
    assert done + Budget(trials=20).trials_left(done, spent, each) <= max(20, done)


def test_a_minute_that_does_not_count_is_spent_too():
    plain, heated = (
        measurement(trial=trial(plan={**TIME_BOX, **more}), wall_seconds=60.0)
        for more in ({}, {"warmup_seconds": 60.0})
    )
    assert seconds_of(heated) == seconds_of(plain) + 60
