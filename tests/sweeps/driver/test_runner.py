import pytest

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import RETRIED, run_sweep
from tests.sweeps.builders import measurement, resources, trial

TRIALS = [trial(resources=resources(memory_mib=size)) for size in (1024.0, 2048.0, 3072.0)]


class FakeExecutor:
    """Measures at once; fails as told, and notes what it was given."""

    def __init__(self, stop_after=None, status=Status.OK):
        self.given = []
        self.stop_after = stop_after
        self.status = status

    def execute(self, trials):
        for one in trials:
            if len(self.given) == self.stop_after:
                raise KeyboardInterrupt
            self.given.append(one)
            yield measurement(trial=one, status=self.status)

    def close(self):
        pass


@pytest.fixture
def store():
    return SqlStore("sqlite://")


def test_every_trial_gets_one_row(store):
    run_sweep(TRIALS, FakeExecutor(), store)
    assert [row.trial for row in store.all()] == TRIALS


def test_what_is_known_of_the_machine_is_stored_with_every_trial(store):
    run_sweep(TRIALS, FakeExecutor(), store, machine={"fingerprint": {"figures": {}}})
    assert all(row.environment["fingerprint"] == {"figures": {}} for row in store.all())
    assert all(row.environment["cpu_model"] == "EPYC" for row in store.all())


def test_an_interrupted_sweep_goes_on_where_it_stopped(store):
    with pytest.raises(KeyboardInterrupt):
        run_sweep(TRIALS, FakeExecutor(stop_after=2), store)
    again = FakeExecutor()
    run_sweep(TRIALS, again, store)
    assert again.given == TRIALS[2:]
    assert set(store.statuses()) == {one.trial_id for one in TRIALS}


def test_what_is_measured_is_not_measured_again(store):
    run_sweep(TRIALS, FakeExecutor(), store)
    again = FakeExecutor()
    assert run_sweep(TRIALS, again, store).measured == 0
    assert again.given == []


@pytest.mark.parametrize("status", sorted(RETRIED))
def test_failed_trials_are_measured_again_only_when_asked(store, status):
    run_sweep(TRIALS, FakeExecutor(status=status), store)
    assert run_sweep(TRIALS, FakeExecutor(), store).measured == 0
    assert run_sweep(TRIALS, FakeExecutor(), store, again=RETRIED).measured == 3
    assert {row.status for row in store.all()} == {Status.OK}


def test_progress_tells_the_beginning_each_trial_and_the_end(store):
    run_sweep(TRIALS[:1], FakeExecutor(), store)
    told = []
    run_sweep(TRIALS, FakeExecutor(), store, on_progress=told.append)
    assert [(p.done, p.total, p.skipped) for p in told if p.measurement] == [(1, 2, 1), (2, 2, 1)]
    assert [p.started for p in told if p.started] == TRIALS[1:]
    assert [(p.done, p.started, p.measurement) for p in (told[0], told[-1])] == [
        (0, None, None),
        (2, None, None),
    ]
