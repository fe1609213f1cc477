"""Where a sweep stands: by its own tally on a clock of the test, and by the store for those who only look."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.events import Event
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.run.runner import Progress
from advisor.sweeps.trial.ownership import this_process
from advisor.sweeps.watching.progress import Snapshot, Tally, look_at, pace_of
from tests.sweeps.builders import SleepingClock, held, measurement, resources, trial

TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in range(1, 9)]


def event(name, entry, **facts):
    return Event(at=1.0, level=20, event=name, trial_id=entry.trial_id, node="gpu-7", pid=1, facts=facts)


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
    result = tally.standing()
    assert (result.left, result.skipped, result.done) == (8, 2, 0)
    assert result.rest_seconds == 8 * usual_seconds(TRIALS[0]) - 5
    assert result.basis == f"the usual {usual_seconds(TRIALS[0]):g} s a trial"


def test_time_and_cost_of_the_rest_go_by_the_pace_so_far(tally, clock):
    """What comes before the first trial costs money and is no part of the pace."""
    clock.now += 100
    for number in range(2):
        end(tally, clock, number)
    clock.now += 4
    result = tally.standing()
    assert (result.elapsed_seconds, result.rest_seconds, result.trial_seconds) == (124, 6 * 10 - 4, 20)
    assert (result.usd, result.expected_usd) == (pytest.approx(0.124), pytest.approx(0.18))


def test_counts_and_attempts_are_by_how_trials_ended(tally, clock):
    end(tally, clock, 0)
    end(tally, clock, 1, status=Status.CONTAMINATED, attempts=({}, {}))
    end(tally, clock, 2, status=Status.FAILED)
    result = tally.standing()
    assert result.counts == {Status.OK: 1, Status.CONTAMINATED: 1, Status.FAILED: 1}
    assert (result.attempts, result.running) == (5, ())


def test_what_runs_says_where_for_how_long_and_in_which_attempt(tally, clock):
    for entry in TRIALS[:2]:
        tally.follow(progress(0, started=entry))
    tally.note(event("attempt_began", TRIALS[1], attempt=3))
    clock.now += 7
    first, second = tally.standing().running
    assert (first.where, first.attempt, first.seconds) == ("here", 1, 7)
    assert (second.where, second.attempt) == ("gpu-7", 3)


def test_on_a_cluster_a_trial_runs_from_when_it_is_placed_until_its_node_is_lost(clock):
    tally = Tally(clock=clock)
    for entry in TRIALS[:2]:
        tally.follow(progress(0, started=entry))
    clock.now += 50
    tally.note(event("placed", TRIALS[0]))
    clock.now += 3
    (only,) = tally.standing().running
    assert (only.where, only.seconds) == ("gpu-7", 3)
    tally.note(event("run_lost", TRIALS[0]))
    tally.note(event("placed", TRIALS[1]))
    tally.note(event("not_stored", TRIALS[1]))  # another driver stored it first
    assert tally.standing().running == ()


def test_batches_after_one_another_add_up(tally, clock):
    end(tally, clock, 0)
    tally.follow(progress(0, total=3))
    result = tally.standing()
    assert (result.total, result.left, result.done) == (4, 3, 1)


@given(st.lists(st.floats(0.001, 1e5), min_size=1, max_size=8), st.floats(0, 1e6))
def test_what_is_expected_is_never_negative_and_nothing_left_takes_no_time(seconds, later):
    clock = SleepingClock()
    tally = Tally(clock=clock)
    for number, second in enumerate(seconds):
        end(tally, clock, number, second)
    clock.now += later
    result = tally.standing()
    assert result.rest_seconds >= 0
    assert result.left == 8 - len(seconds)
    assert result.left or result.rest_seconds == 0
    assert result.usd is None


# What the store tells those who only look.

FIVE = [trial(resources=resources(memory_mib=float(size))) for size in range(1, 6)]
IDS = [entry.trial_id for entry in FIVE]
MIGRATED = Path(__file__).parents[2] / "data" / "measurements-0008.sqlite"
NOON = datetime(2026, 7, 20, 12, tzinfo=UTC)


def after(*seconds):
    return [(NOON + timedelta(seconds=second)).isoformat() for second in seconds]


def test_it_tells_what_runs_what_is_submitted_what_is_done_and_what_is_left(url):
    owner = this_process()
    with closing(SqlStore(url)) as store:
        store.append_all([measurement(trial=FIVE[0])])
        store.append_all([measurement(trial=FIVE[1], status=Status.FAILED)])
        store.leases.take({IDS[2]: "", IDS[3]: "", "of another sweep": ""}, owner)
        store.leases.begin(IDS[2], owner, "the third")
        with closing(SqlStore(url, reading=True)) as reading:
            described, everything = look_at(reading, IDS), look_at(reading)
    assert [(each.total, each.left) for each in (described, everything)] == [(5, 3)] * 2
    assert (described.counts, described.submitted) == ({"ok": 1, "failed": 1}, 1)
    (entry,) = described.running
    assert (entry.trial_id, entry.label, entry.pid) == (IDS[2], "the third", owner.pid)
    assert not described.is_over


def test_a_retried_trial_is_counted_once(url):
    with closing(SqlStore(url)) as store:
        store.append_all([measurement(trial=FIVE[0], status=Status.FAILED)])
        store.leases.take({IDS[0]: ""}, this_process())
        result = look_at(store)
    assert (result.total, result.left, result.submitted) == (1, 0, 1)


def test_the_pace_is_that_of_the_latest_trials_and_the_end_is_expected_by_it():
    pace = pace_of(after(*range(0, 400, 20)))
    assert pace.seconds_a_trial == 20
    assert pace_of([*after(*range(0, 400, 20)), *after(*range(405, 605, 10))]).seconds_a_trial == 10
    assert pace_of(after(0, 10, 20, 5000, 5030, 5060)).seconds_a_trial == 30  # a break is none of it
    assert snapshot().expected_end == NOON + timedelta(seconds=30)
    far = replace(snapshot().pace, seconds=1e15)
    for changes in ({"running": ()}, {"counts": {"ok": 5}}, {"pace": None}, {"pace": far}):
        assert snapshot(**changes).expected_end is None


@pytest.mark.parametrize("moments", [[], ["", "soon"], after(0, 10), after(5, 5, 5)])
def test_too_little_is_no_pace(moments):
    assert pace_of(moments) is None


def snapshot(**changes):
    values = {"counts": {"ok": 2}, "running": (held(),), "pace": pace_of(after(0, 10, 20))}
    return Snapshot(**{"at": NOON, "database": "db", "total": 5, **values, **changes})
