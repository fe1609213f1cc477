import pytest

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import RETRIED, run_sweep
from tests.sweeps.builders import AtOnce, resources, trial

TRIALS = [trial(resources=resources(memory_mib=size)) for size in (1024.0, 2048.0, 3072.0)]


@pytest.fixture
def store():
    return SqlStore("sqlite://")


def test_every_trial_gets_one_row_with_what_is_known_of_the_machine(store):
    run_sweep(TRIALS, AtOnce(), store, machine={"fingerprint": {"figures": {}}})
    assert [row.trial for row in store.all()] == TRIALS
    assert all(row.environment["fingerprint"] == {"figures": {}} for row in store.all())
    assert all(row.environment["cpu_model"] == "EPYC" for row in store.all())


def test_an_interrupted_sweep_goes_on_where_it_stopped_and_measures_nothing_twice(store):
    with pytest.raises(KeyboardInterrupt):
        run_sweep(TRIALS, AtOnce(stop_after=2), store)
    again = AtOnce()
    run_sweep(TRIALS, again, store)
    assert set(store.statuses()) == {one.trial_id for one in TRIALS}
    assert run_sweep(TRIALS, again, store).measured == 0
    assert again.given == TRIALS[2:]


@pytest.mark.parametrize("status", sorted(RETRIED))
def test_failed_trials_are_measured_again_only_when_asked(store, status):
    run_sweep(TRIALS, AtOnce(status=status), store)
    assert run_sweep(TRIALS, AtOnce(), store).measured == 0
    assert run_sweep(TRIALS, AtOnce(), store, again=RETRIED).measured == 3
    assert {row.status for row in store.all()} == {Status.OK}


def test_progress_tells_the_beginning_each_trial_and_the_end(store):
    run_sweep(TRIALS[:1], AtOnce(), store)
    told = []
    run_sweep(TRIALS, AtOnce(), store, on_progress=told.append)
    assert [(p.done, p.total, p.skipped) for p in told if p.measurement] == [(1, 2, 1), (2, 2, 1)]
    assert [p.started for p in told if p.started] == TRIALS[1:]
    ends = [(p.done, p.started, p.measurement) for p in (told[0], told[-1])]
    assert ends == [(0, None, None), (2, None, None)]
