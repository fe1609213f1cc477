"""A timed run ends when it knows enough; what the machine did meanwhile is told beside it."""

import itertools

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.worker import timed_run
from advisor.sweeps.worker.engine import Engine
from tests.sweeps.builders import TIME_BOX, measurement, trial

BATCHES = itertools.repeat((None, None))


class Paced(Engine):
    """Computes at the pace of a clock that the test owns; skips steps as it is told."""

    def __init__(self, monkeypatch, seconds, skips=()):
        self.now, self.seconds, self.skips = 0.0, itertools.cycle(seconds), iter(skips)
        self.skipped = 0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)
        super().__init__(clock=lambda: self.now)

    @property
    def skipped_steps(self):
        return self.skipped

    def launch(self, inputs, targets):
        self.now += next(self.seconds)
        self.skipped += next(self.skips, 0)
        return self.mark()


def paced(monkeypatch, seconds, **engine):
    return timed_run.StepRunner(Paced(monkeypatch, seconds, **engine), depth=0)


def steps_of(monkeypatch, seconds, **box):
    values = {"seconds": 2.0, "min_steps": 4, "max_seconds": 20.0, **box}
    return timed_run.timed_steps(paced(monkeypatch, seconds), BATCHES, timed_run.TimeBox(**values))


@pytest.mark.parametrize(
    ("seconds", "period", "whole", "about"),
    [
        ([0.1], 1, 2.0, 0.3),  # even ones, after the least time
        ([0.1, 0.9, 0.2, 1.9, 0.3], 1, 20.0, 2.0),  # never known well: at the most time
        ([0.0005], 2, 2.0, 0.6),  # thousands are looked at together
    ],
)
def test_steps_end_between_the_least_time_and_the_most(monkeypatch, seconds, period, whole, about):
    assert sum(steps_of(monkeypatch, seconds, period=period)) == pytest.approx(whole, abs=about)


def test_a_run_ends_by_its_error_its_iterations_its_epoch_or_its_seconds_after_the_warm_up(monkeypatch):
    """A minute in steady state is one without the steps before it."""
    uneven = [0.1, 0.16, 0.12, 0.2, 0.09, 0.13, 0.21]
    rough, fine = (len(steps_of(monkeypatch, uneven, rel_error=error)) for error in (0.2, 0.005))
    assert rough < fine
    assert len(steps_of(monkeypatch, [1.0], iterations=1000)) == 1000
    assert len(steps_of(monkeypatch, [0.001], iterations=3)) == 3
    assert len(steps_of(monkeypatch, [0.5], most_steps=7, iterations=1000)) == 7
    steps = steps_of(monkeypatch, [0.4] * 3 + [0.1] * 200)
    assert sum(steps) == pytest.approx(3 * 0.4 + 2.0, abs=0.4)


@pytest.mark.parametrize(("skips", "steps"), [([1, 1, 0, 1], 4 + 8), ([1, 1], 2 + 8)])
def test_the_warm_up_goes_on_until_the_scale_of_a_scaled_loss_has_settled(monkeypatch, skips, steps):
    """One that settled before asks for no more steps."""
    runner = paced(monkeypatch, [0.1], skips=skips)
    assert timed_run.warm_up(runner, BATCHES, 2) == steps
    assert timed_run.warm_up(runner, BATCHES, 2) == 2


def test_steps_of_no_training_give_no_rate(monkeypatch):
    runner = paced(monkeypatch, [0.1], skips=[0, 0, 1])
    box = timed_run.TimeBox(seconds=0.0, min_steps=1, max_seconds=9.0, iterations=5)
    with pytest.raises(MeasuringError, match="1 of 5"):
        timed_run.timed_steps(runner, BATCHES, box)


def run_here(runner, **plan):
    entry = trial(plan={**TIME_BOX, **plan})
    job = {"usage_source": {"kind": "process-tree"}, "cpus": [0]}
    return timed_run.timed_run(entry, job, runner, BATCHES)


def test_clocks_that_go_backwards_give_no_rate_a_pause_is_part_of_it_and_a_set_clock_changes_no_step(
    monkeypatch,
):
    """A virtual machine's counter may jump when it is moved to another host."""
    with pytest.raises(MeasuringError, match="went backwards"):
        run_here(paced(monkeypatch, [0.1, 0.1, 0.1, -5.0]), iterations=20)
    seconds = [0.1] * 40
    seconds[30] = 900.0
    window = run_here(paced(monkeypatch, seconds), iterations=30)
    row = measurement(step_seconds=tuple(window.step_seconds))
    assert row.throughput_samples_per_second == pytest.approx(8 * 30 / 902.9)
    jumped = iter([1_000_000.0, 1_000_000.0 - 86_400])
    monkeypatch.setattr("time.time", lambda: next(jumped))
    window = run_here(paced(monkeypatch, [0.1]), iterations=20)
    assert window.step_seconds == pytest.approx([0.1] * 20)
    assert window.machine["wall_clock_jump_seconds"] == pytest.approx(-86_400, abs=60)


def test_a_long_trial_tells_its_pace_against_the_first_minute_which_does_not_count_where_one_is_warmed_up(
    monkeypatch,
):
    """A GPU that slows down as it gets warm: 600 cold steps of 0.1 s, then steps of 0.125 s."""
    window = run_here(paced(monkeypatch, [0.5] * 130 + [1.0] * 400), iterations=300)
    pace = window.machine["pace"]
    assert pace["first_minute_samples_per_second"] == pytest.approx(16)
    assert pace["sustained_samples_per_second"] == pytest.approx(8)
    paced_down = paced(monkeypatch, [0.1] * 600 + [0.125] * 2000)
    window = run_here(paced_down, warmup_seconds=60.0, measure_seconds=60.0, max_seconds=120.0)
    assert sum(window.step_seconds) == pytest.approx(60, abs=1)
    assert window.step_seconds == pytest.approx([0.125] * len(window.step_seconds))
    assert sum(window.warmup_seconds) == pytest.approx(60, abs=1)
    assert window.wall_seconds == pytest.approx(60, abs=1)
    pace = window.machine["pace"]
    assert pace["first_minute_samples_per_second"] == pytest.approx(80, rel=0.01)
    assert pace["sustained_samples_per_second"] == pytest.approx(64)


STAT = "cpu  9 9 9 9 9 9 9 900\ncpu0 1 0 1 5 0 0 0 100\ncpu1 1 0 1 5 0 0 0 300\n"


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_clocks_stolen_time_and_heat_of_the_trials_own_cpus_are_read_where_the_machine_tells_them(tmp_path):
    state = timed_run.machine_state([0, 1], root=tmp_path)
    assert not {"cpu_mhz", "steal_seconds", "cpu_thermal_throttles", "gpu"} & set(state)
    assert timed_run.changes(state, timed_run.machine_state([0, 1], root=tmp_path), 2) == {}
    # A virtual machine tells its clock in cpuinfo.
    write(tmp_path, "proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2600.5\n\nprocessor\t: 1\n")
    assert timed_run.machine_state([0], root=tmp_path)["cpu_mhz"] == 2600.5
    write(tmp_path, "proc/stat", STAT)
    for cpu, khz in ((0, 2_000_000), (1, 3_000_000)):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        write(tmp_path, f"{folder}/cpufreq/scaling_cur_freq", f"{khz}\n")
        write(tmp_path, f"{folder}/thermal_throttle/core_throttle_count", "4\n")
    both, entry = (timed_run.machine_state(cpus, root=tmp_path) for cpus in ((0, 1), (1,)))
    assert (both["cpu_mhz"], entry["cpu_mhz"]) == (2500, 3000)
    assert both["cpu_thermal_throttles"] == 8
    assert both["steal_seconds"] == pytest.approx(4 / 3 * entry["steal_seconds"])


def run_at(monotonic, wall, running=None, **more):
    running = monotonic if running is None else running
    return {"monotonic_seconds": monotonic, "wall_seconds": wall, "running_seconds": running, **more}


@pytest.mark.parametrize(
    ("before", "after", "facts"),
    [
        (run_at(0, 1_000), run_at(10, 4_610), {"wall_clock_jump_seconds": 3_600}),
        (run_at(0, 4_610), run_at(10, 1_020), {"wall_clock_jump_seconds": -3_600}),
        (run_at(0, 0), run_at(3_600, 3_601.8), {}),  # slewed
        (
            run_at(0, 0),
            run_at(10, 310, running=310),
            {"suspended_seconds": 300, "wall_clock_jump_seconds": 300},
        ),
        (run_at(0, 0, steal_seconds=5.0), run_at(10, 10, steal_seconds=9.0), {"steal_share": 0.2}),
    ],
)
def test_set_clocks_sleep_and_stolen_time_of_two_cpus_are_told(before, after, facts):
    assert timed_run.changes(before, after, 2) == pytest.approx(facts)
