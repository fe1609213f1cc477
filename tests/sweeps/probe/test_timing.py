"""Repeats are long enough, enough of them, and warm, on a clock that the test turns."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.probe.figures import figure, is_figure, is_skipped, skipped
from advisor.sweeps.probe.timing import LEAST_REPEATS, largest_affordable, time_calls


class Machine:
    """Calls take `seconds` of a clock of their own; the first one takes longer."""

    def __init__(self, seconds: float, first: float = 0.0) -> None:
        self.now, self.seconds, self.first, self.calls = 0.0, seconds, first, 0

    def call(self) -> None:
        self.now += self.first if self.calls == 0 else self.seconds
        self.calls += 1

    def clock(self) -> float:
        return self.now


def test_a_call_takes_what_it_takes_and_its_first_time_does_not_count():
    machine = Machine(0.001, first=5.0)
    times = time_calls(machine.call, 0.5, clock=machine.clock)
    assert times == pytest.approx([0.001] * len(times))
    assert len(times) >= LEAST_REPEATS


@given(st.floats(1e-4, 10), st.floats(0, 2))
def test_there_are_5_to_30_repeats_however_long_a_call_takes(call_seconds, seconds):
    machine = Machine(call_seconds)
    assert 5 <= len(time_calls(machine.call, seconds, clock=machine.clock)) <= 30


def test_short_calls_are_bundled_until_the_clock_can_tell():
    machine, synchronized = Machine(1e-5), []
    synchronize = lambda: synchronized.append(machine.calls)  # noqa: E731
    times = time_calls(machine.call, 0.1, synchronize=synchronize, clock=machine.clock)
    assert synchronized[-1] - synchronized[-2] >= 400
    assert statistics.median(times) == pytest.approx(1e-5)


def test_the_time_asked_for_is_about_kept():
    machine = Machine(0.002)
    time_calls(machine.call, 0.4, clock=machine.clock)
    assert 0.1 <= machine.now <= 0.5


def test_the_largest_size_that_fits_is_taken_and_no_larger_one_is_tried():
    tried = []

    def seconds_of(size):
        tried.append(size)
        return 1e-9 * size**3

    chosen = largest_affordable((512, 1024, 2048, 4096), seconds_of, 20.0, growth=3)
    assert chosen == 1024
    assert tried == [512, 1024]


def test_all_sizes_fit_on_a_fast_device():
    assert largest_affordable((1, 2, 4), lambda _: 1e-9, 1.0, growth=3) == 4


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40))
def test_a_figure_is_the_median_and_keeps_its_values(values):
    found = figure(values, "GB/s", "how")
    assert found["value"] == statistics.median(values)
    assert found["values"] == values
    assert found["repeats"] == len(values)
    assert found["spread"] >= 0
    assert is_figure(found)
    assert not is_skipped(found)


def test_a_reason_is_one_line():
    assert skipped("two\n lines  here") == {"skipped": "two lines here"}
