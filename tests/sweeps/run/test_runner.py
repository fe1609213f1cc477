"""A sweep through its trials: each once, anew what is old, and again what is to be repeated."""

from datetime import UTC, datetime, timedelta
from statistics import fmean

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.formats import measurement_from_dict, measurement_to_dict
from advisor.sweeps.planning.plan import merged, rounds
from advisor.sweeps.quality.issues import is_stale
from advisor.sweeps.run.runner import RETRIED, current_rows, run_sweep
from tests.rows import table
from tests.sweeps.builders import TIME_BOX, AtOnce, measurement, resources, trial

CASES = table("sweeps_cases")

TRIALS = [trial(resources=resources(memory_mib=size)) for size in (1024.0, 2048.0, 3072.0)]


@pytest.fixture
def store():
    return SqlStore("sqlite://")


def test_every_trial_gets_one_row_with_what_is_known_of_the_machine(store):
    run_sweep(TRIALS, AtOnce(), store, machine={"fingerprint": {"figures": {}}})
    assert [row.trial for row in store.all()] == TRIALS
    assert all(row.environment["fingerprint"] == {"figures": {}} for row in store.all())
    assert all(row.environment["cpu_model"] == "EPYC" for row in store.all())


@pytest.mark.parametrize("status", sorted(RETRIED))
def test_failed_trials_are_measured_again_only_when_asked(store, status):
    run_sweep(TRIALS, AtOnce(status=status), store)
    assert run_sweep(TRIALS, AtOnce(), store).measured == 0
    assert run_sweep(TRIALS, AtOnce(), store, again=RETRIED).measured == 3
    assert {row.status for row in store.all()} == {Status.OK}


def test_progress_tells_the_beginning_each_trial_and_the_end(store):
    run_sweep(TRIALS[:1], AtOnce(), store)
    lines = []
    run_sweep(TRIALS, AtOnce(), store, on_progress=lines.append)
    assert [(p.done, p.total, p.skipped) for p in lines if p.measurement] == [(1, 2, 1), (2, 2, 1)]
    assert [p.started for p in lines if p.started] == TRIALS[1:]
    ends = [(p.done, p.started, p.measurement) for p in (lines[0], lines[-1])]
    assert ends == [(0, None, None), (2, None, None)]


# Measured anew is what is older than a given time.

MONDAY = datetime(2026, 11, 16, 3, tzinfo=UTC)
WEEK = timedelta(days=7)


def progress_at(moment, **options):
    return AtOnce(started_at=moment.isoformat(), **options)


@pytest.fixture
def old_store():
    old_store = SqlStore("sqlite://")
    run_sweep(TRIALS, progress_at(MONDAY), old_store)
    yield old_store
    old_store.close()


def starts(rows):
    return {row.started_at for row in rows}


def test_what_is_older_is_measured_again_and_stays_on_record(old_store):
    later = MONDAY + WEEK
    assert run_sweep(TRIALS, progress_at(later), old_store, since=later).measured == 3
    assert starts(old_store.all()) == {later.isoformat()}
    assert [row.trial for row in old_store.earlier()] == TRIALS
    assert starts(old_store.earlier()) == {MONDAY.isoformat()}
    assert len(old_store.earlier([TRIALS[1].trial_id])) == 1


def test_an_interrupted_sweep_goes_on_where_it_stopped(old_store):
    later = MONDAY + WEEK
    with pytest.raises(KeyboardInterrupt):
        run_sweep(TRIALS, progress_at(later, stop_after=2), old_store, since=later)
    again = progress_at(later)
    run_sweep(TRIALS, again, old_store, since=later)
    assert again.given == TRIALS[2:]
    assert run_sweep(TRIALS, again, old_store, since=later).measured == 0
    assert current_rows(TRIALS, old_store, since=later + WEEK) == {}


@pytest.mark.parametrize("status", sorted(RETRIED))
def test_a_run_that_ends_badly_does_not_take_a_good_rows_place(old_store, status):
    later = MONDAY + WEEK
    first_ends_badly = progress_at(later, of=lambda number: {"status": status if number == 1 else Status.OK})
    assert run_sweep(TRIALS, first_ends_badly, old_store, since=later).measured == 3
    kept = old_store.read([TRIALS[0].trial_id]).measurements[0]
    assert (kept.status, kept.started_at) == (Status.OK, MONDAY.isoformat())
    assert kept.attempts[-1]["status"] == status.value
    assert len(old_store.earlier()) == 2
    # The same command again tries what is still old.
    again = progress_at(later)
    run_sweep(TRIALS, again, old_store, since=later)
    assert again.given == TRIALS[:1]


def test_repeats_are_measured_anew_together():
    repeated = [trial(plan={**TIME_BOX, "repeats": 2})]
    old_store, later = SqlStore("sqlite://"), MONDAY + WEEK
    run_sweep(repeated, progress_at(MONDAY), old_store)
    run_sweep(repeated, progress_at(later), old_store, since=later)
    (row,) = old_store.all()
    assert row.started_at == later.isoformat()
    assert [repeat["started_at"] for repeat in row.repeats] == [later.isoformat()]
    (before,) = old_store.earlier()
    assert len(before.repeats) == 1
    old_store.close()


def test_a_further_run_leaves_nothing_among_the_earlier(old_store):
    more = [replace(entry, plan={**entry.plan, "repeats": 2}) for entry in TRIALS]
    run_sweep(more, progress_at(MONDAY), old_store)
    run_sweep(TRIALS, progress_at(MONDAY), old_store, runs_of=lambda _trial: 2)
    assert old_store.earlier() == []


@pytest.mark.parametrize(("started_at", "older"), CASES["a_row_that_does_not_tell_its_time_is_old"])
def test_a_row_that_does_not_tell_its_time_is_old(started_at, older):
    assert is_stale(started_at, MONDAY) is older
    assert not is_stale(started_at, None)


# Repeats of a trial.

REPEATED = [
    trial(resources=resources(memory_mib=1024.0 + size), plan={**TIME_BOX, "repeats": 3}) for size in range(8)
]


def test_all_trials_lie_between_two_runs_of_one_and_a_spoiled_repeat_counts_for_nothing():
    first, second, third = rounds(REPEATED, {})
    assert first == REPEATED
    assert sorted(map(id, second)) == sorted(map(id, third)) == sorted(map(id, REPEATED))
    assert first != second != third
    assert rounds(REPEATED, {}) == [first, second, third]
    good = measurement(step_seconds=(0.1,) * 8)
    row = merged(good, measurement(status=Status.CONTAMINATED, step_seconds=(9.0,)))
    assert row.throughput_samples_per_second == good.throughput_samples_per_second
    assert [attempt["step_seconds"] for attempt in row.attempts] == [[9.0]]
    assert merged(measurement(status=Status.FAILED), good).status is Status.OK


def test_an_interrupted_sweep_goes_on_with_the_repeats_that_are_missing():
    store = SqlStore("sqlite://")
    with pytest.raises(KeyboardInterrupt):
        run_sweep(REPEATED, AtOnce(stop_after=11), store)
    rest = AtOnce(of=lambda number: {"step_seconds": (1 / number,) * 8})
    run_sweep(REPEATED, rest, store)
    assert len(rest.given) == 24 - 11
    assert {len(row.repeats) for row in store.all()} == {2}
    for row in store.all():
        runs = [row.step_seconds, *(run["step_seconds"] for run in row.repeats)]
        mean = fmean(map(fmean, runs))
        assert row.throughput_samples_per_second == pytest.approx(8 / mean)
        assert measurement_from_dict(measurement_to_dict(row)) == row
    assert run_sweep(REPEATED, AtOnce(), store).measured == 0


def test_a_run_on_another_cpu_is_kept_beside_the_repeats_and_not_asked_for_again():
    """The spread of two CPUs would pass for that of one."""

    def on_two(number):
        return {"environment": {"cpu_model": "Xeon" if number == 2 else "EPYC"}}

    store, executor = SqlStore("sqlite://"), AtOnce(of=on_two)
    run_sweep(REPEATED[:1], executor, store)
    run_sweep(REPEATED[:1], executor, store)
    (row,) = store.all()
    assert len(executor.given) == 3
    assert [repeat["environment"]["cpu_model"] for repeat in row.repeats] == ["EPYC"]
    assert [attempt["environment"]["cpu_model"] for attempt in row.attempts] == ["Xeon"]
