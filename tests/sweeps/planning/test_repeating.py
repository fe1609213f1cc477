import pytest

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.driver.runner import run_sweep
from advisor.sweeps.formats.serialization import measurement_from_dict, measurement_to_dict
from advisor.sweeps.planning.repeating import merged, rounds
from tests.sweeps.builders import TIME_BOX, AtOnce, measurement, resources, trial

TRIALS = [
    trial(resources=resources(memory_mib=1024.0 + size), plan={**TIME_BOX, "repeats": 3}) for size in range(8)
]


def faster(number):
    return {"step_seconds": (1 / number,) * 8}


def test_all_trials_lie_between_two_runs_of_one_and_their_order_changes():
    first, second, third = rounds(TRIALS, {})
    assert first == TRIALS
    assert sorted(map(id, second)) == sorted(map(id, third)) == sorted(map(id, TRIALS))
    assert first != second != third
    assert rounds(TRIALS, {}) == [first, second, third]


def test_repeats_lie_in_one_row_and_its_rate_is_that_of_their_mean_step():
    store = SqlStore("sqlite://")
    run_sweep(TRIALS[:1], AtOnce(of=faster), store)
    (row,) = store.all()
    assert [one["step_seconds"][0] for one in row.repeats] == [1 / 2, 1 / 3]
    assert row.throughput_samples_per_second == pytest.approx(8 * 3 / (1 + 1 / 2 + 1 / 3))
    assert measurement_from_dict(measurement_to_dict(row)) == row


def test_an_interrupted_sweep_goes_on_with_the_repeats_that_are_missing():
    store = SqlStore("sqlite://")
    with pytest.raises(KeyboardInterrupt):
        run_sweep(TRIALS, AtOnce(stop_after=11), store)
    rest = AtOnce()
    run_sweep(TRIALS, rest, store)
    assert len(rest.given) == 24 - 11
    assert {len(row.repeats) for row in store.all()} == {2}
    assert run_sweep(TRIALS, AtOnce(), store).measured == 0


def test_a_trial_that_fails_is_not_repeated():
    executor = AtOnce(status=Status.OUT_OF_MEMORY)
    run_sweep(TRIALS, executor, SqlStore("sqlite://"))
    assert len(executor.given) == len(TRIALS)


def test_a_spoiled_repeat_is_kept_and_counts_for_nothing():
    good = measurement(step_seconds=(0.1,) * 8)
    row = merged(good, measurement(status=Status.CONTAMINATED, step_seconds=(9.0,)))
    assert row.throughput_samples_per_second == good.throughput_samples_per_second
    assert [one["step_seconds"] for one in row.attempts] == [[9.0]]
    assert merged(measurement(status=Status.FAILED), good).status is Status.OK


def test_a_run_on_another_cpu_is_kept_beside_the_repeats_and_not_asked_for_again():
    """The spread of two CPUs would pass for that of one."""

    def on_two(number):
        return {"environment": {"cpu_model": "Xeon" if number == 2 else "EPYC"}}

    store, executor = SqlStore("sqlite://"), AtOnce(of=on_two)
    run_sweep(TRIALS[:1], executor, store)
    run_sweep(TRIALS[:1], executor, store)
    (row,) = store.all()
    assert len(executor.given) == 3
    assert [one["environment"]["cpu_model"] for one in row.repeats] == ["EPYC"]
    assert [one["environment"]["cpu_model"] for one in row.attempts] == ["Xeon"]
