import itertools

import pytest

from advisor.errors import MeasuringError
from sweeps.worker.stages import stage_rates
from sweeps.worker.timed_run import timed_run, timed_steps
from tests.sweeps.builders import TIME_BOX, measurement, trial


class Taker:
    """Takes batches at the pace of a clock that the test owns."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds, self.taken = 0.0, itertools.cycle(seconds), 0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def submit(self, _inputs, _targets):
        self.now += next(self.seconds)
        self.taken += 1

    def drain(self):
        pass


def steps_of(monkeypatch, seconds, most=float("inf"), **plan):
    one = trial(plan={**TIME_BOX, "measure_seconds": 2.0, "max_seconds": 20.0, **plan})
    return timed_steps(itertools.repeat((None, None)), Taker(monkeypatch, seconds), one, most)


def test_even_steps_end_after_the_least_time(monkeypatch):
    assert sum(steps_of(monkeypatch, [0.1])) == pytest.approx(2.0, abs=0.3)


def test_steps_that_are_never_known_well_end_at_the_most_time(monkeypatch):
    assert sum(steps_of(monkeypatch, [0.1, 0.9, 0.2, 1.9, 0.3])) == pytest.approx(20, abs=2)


def test_asking_for_less_ends_earlier(monkeypatch):
    uneven = [0.1, 0.16, 0.12, 0.2, 0.09, 0.13, 0.21]
    rough, fine = (len(steps_of(monkeypatch, uneven, rel_error=error)) for error in (0.2, 0.005))
    assert rough < fine


def test_iterations_are_exactly_so_many_however_long_they_last(monkeypatch):
    assert len(steps_of(monkeypatch, [1.0], iterations=1000)) == 1000
    assert len(steps_of(monkeypatch, [0.001], iterations=3)) == 3


def test_a_cold_epoch_ends_a_trial_before_its_iterations(monkeypatch):
    assert len(steps_of(monkeypatch, [0.5], most=7, iterations=1000)) == 7


def run_here(taker, **plan):
    one = trial(plan={**TIME_BOX, **plan})
    job = {"usage_source": {"kind": "process-tree"}, "cpus": [0]}
    return timed_run(one, job, taker, itertools.repeat((None, None)))


def test_a_clock_that_goes_backwards_gives_no_rate(monkeypatch):
    """A virtual machine's counter may jump when it is moved to another host."""
    with pytest.raises(MeasuringError, match="went backwards"):
        run_here(Taker(monkeypatch, [0.1, 0.1, 0.1, -5.0]), iterations=20)


def test_a_wall_clock_that_jumps_changes_no_step(monkeypatch):
    jumped = iter([1_000_000.0, 1_000_000.0 - 86_400])
    monkeypatch.setattr("time.time", lambda: next(jumped))
    window = run_here(Taker(monkeypatch, [0.1]), iterations=20)
    assert window.step_seconds == pytest.approx([0.1] * 20)
    assert window.machine["wall_clock_jump_seconds"] == pytest.approx(-86_400, abs=60)


def test_a_pause_of_the_machine_is_a_stall_and_not_the_rate(monkeypatch):
    seconds = [0.1] * 40
    seconds[30] = 900.0
    window = run_here(Taker(monkeypatch, seconds), iterations=30)
    row = measurement(step_seconds=tuple(window.step_seconds))
    assert row.throughput_samples_per_second == pytest.approx(8 / 0.1)


def test_a_long_trial_tells_its_pace_against_the_first_minute(monkeypatch):
    window = run_here(Taker(monkeypatch, [0.5] * 130 + [1.0] * 400), iterations=300)
    pace = window.machine["pace"]
    assert pace["first_minute_samples_per_second"] == pytest.approx(16)
    assert pace["sustained_samples_per_second"] == pytest.approx(8)


@pytest.mark.slow
def test_each_stage_has_a_rate_of_its_own(tmp_path):
    """Training of Mask R-CNN-like targets aside, a small network: three stages, all finite."""
    from models.zoo.opening import open_network
    from sweeps.datasets.jpeg_files import JpegFiles
    from sweeps.datasets.photographs import write_samples
    from sweeps.worker.accelerators import EmulatedAccelerator

    write_samples(tmp_path, range(12), seed=0)
    source = JpegFiles(tmp_path)
    one = trial(accelerator="emulated:T4", emulated_step_seconds=0.04, dataset_path=str(tmp_path))
    rates = stage_rates(one, open_network("googlenet"), EmulatedAccelerator(0.04), source)
    assert rates["accelerator"] == 8 / 0.04
    assert rates["host"] > 0
    assert rates.get("storage", 1) > 0
