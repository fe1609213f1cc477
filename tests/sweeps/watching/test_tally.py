"""A tally tells where a sweep stands, by a clock of the test's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Status
from advisor.sweeps.driver.runner import Progress
from advisor.sweeps.events import Event
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.watching.tally import Tally
from tests.sweeps.builders import measurement, resources, trial
from tests.sweeps.clock import SleepingClock

TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in range(1, 9)]


def event(name, one, **facts):
    return Event(at=1.0, level=20, event=name, trial_id=one.trial_id, node="gpu-7", pid=1, facts=facts)


def progress(done, total=8, **changes):
    return Progress(done=done, total=total, skipped=2, **changes)


@pytest.fixture
def clock():
    return SleepingClock()


@pytest.fixture
def tally(clock):
    return Tally(usd_per_hour=3.6, where="here", clock=clock)


def end(tally, clock, number, seconds=10.0, **changes):
    tally.follow(progress(number, started=TRIALS[number]))
    clock.now += seconds
    tally.follow(progress(number + 1, measurement=measurement(trial=TRIALS[number], **changes)))


def test_before_any_trial_has_ended_the_usual_time_is_the_basis(tally, clock):
    tally.follow(progress(0, started=TRIALS[0]))
    clock.now += 5
    found = tally.standing()
    assert (found.left, found.skipped, found.done) == (8, 2, 0)
    assert found.rest_seconds == 8 * usual_seconds(TRIALS[0]) - 5
    assert found.basis == f"the usual {usual_seconds(TRIALS[0]):g} s a trial"


def test_time_and_cost_of_the_rest_go_by_the_pace_so_far(tally, clock):
    for number in range(2):
        end(tally, clock, number)
    clock.now += 4
    found = tally.standing()
    assert found.elapsed_seconds == 24
    assert found.rest_seconds == 6 * 10 - 4
    assert found.usd == pytest.approx(0.024)
    assert found.expected_usd == pytest.approx(0.08)
    assert found.trial_seconds == 20


def test_what_comes_before_the_first_trial_costs_money_and_is_no_part_of_the_pace(tally, clock):
    clock.now += 100
    for number in range(2):
        end(tally, clock, number)
    found = tally.standing()
    assert found.rest_seconds == 6 * 10
    assert found.elapsed_seconds == 120
    assert found.usd == pytest.approx(0.12)


def test_counts_and_attempts_are_by_how_trials_ended(tally, clock):
    end(tally, clock, 0)
    end(tally, clock, 1, status=Status.CONTAMINATED, attempts=({}, {}))
    end(tally, clock, 2, status=Status.FAILED)
    found = tally.standing()
    assert found.counts == {Status.OK: 1, Status.CONTAMINATED: 1, Status.FAILED: 1}
    assert found.attempts == 5
    assert found.running == ()


def test_what_runs_says_where_for_how_long_and_in_which_attempt(tally, clock):
    for one in TRIALS[:2]:
        tally.follow(progress(0, started=one))
    tally.note(event("attempt_began", TRIALS[1], attempt=3))
    clock.now += 7
    first, second = tally.standing().running
    assert (first.where, first.attempt, first.seconds) == ("here", 1, 7)
    assert (second.where, second.attempt) == ("gpu-7", 3)


def test_on_a_cluster_a_trial_runs_from_when_it_is_placed_until_its_node_is_lost(clock):
    tally = Tally(clock=clock)
    for one in TRIALS[:2]:
        tally.follow(progress(0, started=one))
    clock.now += 50
    tally.note(event("placed", TRIALS[0]))
    clock.now += 3
    (only,) = tally.standing().running
    assert (only.where, only.seconds) == ("gpu-7", 3)
    tally.note(event("run_lost", TRIALS[0]))
    assert tally.standing().running == ()


def test_a_trial_that_another_driver_stored_first_runs_no_more(tally):
    tally.follow(progress(0, started=TRIALS[0]))
    tally.note(event("not_stored", TRIALS[0]))
    assert tally.standing().running == ()


def test_batches_after_one_another_add_up(tally, clock):
    end(tally, clock, 0)
    tally.follow(progress(0, total=3))
    found = tally.standing()
    assert (found.total, found.left, found.done) == (4, 3, 1)


@given(st.lists(st.floats(0.001, 1e5), min_size=1, max_size=8), st.floats(0, 1e6))
def test_what_is_expected_is_never_negative_and_nothing_left_takes_no_time(seconds, later):
    clock = SleepingClock()
    tally = Tally(clock=clock)
    for number, one in enumerate(seconds):
        end(tally, clock, number, one)
    clock.now += later
    found = tally.standing()
    assert found.rest_seconds >= 0
    assert found.left == 8 - len(seconds)
    assert found.left or found.rest_seconds == 0
    assert found.usd is None
