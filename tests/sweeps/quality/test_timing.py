"""Where the counted steps of a run begin, and what its pace was after a minute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.quality.rates import sustained_rate
from advisor.sweeps.quality.timing import count_warmup_steps, is_steady


def test_equal_steps_are_steady_from_the_first():
    assert is_steady([0.1] * 10)
    assert count_warmup_steps([0.1] * 20) == 0


def test_slow_first_steps_are_warm_up():
    assert count_warmup_steps([0.5, 0.4] + [0.1] * 18) == 2


def test_steps_that_keep_drifting_are_not_steady():
    assert not is_steady([1.1**i for i in range(20)])


def test_the_first_step_of_a_cold_loop_is_warm_up_whatever_it_took():
    for first in (0.01, 0.1, 30.0):
        assert count_warmup_steps([first, *[0.1] * 19], cold=True) == 1
    assert count_warmup_steps([5.0, 0.5, 0.4, *[0.1] * 18], cold=True) == 3


def test_a_slow_phase_is_no_warm_up():
    """A fifth of the run is the most that a slow start may be."""
    assert count_warmup_steps([0.13] * 40 + [0.1] * 60) == 0
    assert count_warmup_steps([0.13] * 10 + [0.1] * 90) == 10


def test_batches_that_were_prepared_ahead_and_cold_clocks_are_warm_up():
    """A fast start is left out up to half of the run: the rate is that of what follows."""
    assert count_warmup_steps([0.02] * 8 + [0.1] * 40) == 8
    assert count_warmup_steps([0.08] * 45 + [0.1] * 55) == 45
    assert count_warmup_steps([0.08] * 60 + [0.1] * 40) == 0


def test_long_and_short_steps_in_turn_are_no_drift():
    assert is_steady([0.01, 0.2] * 10)


def test_too_few_steps_are_never_steady():
    assert not is_steady([0.1, 0.1, 0.1])


@given(st.lists(st.floats(1e-4, 10), max_size=60), st.integers(1, 8))
def test_at_most_half_of_the_steps_are_warm_up(steps, period):
    assert 0 <= count_warmup_steps(steps, period) <= len(steps) // 2


def test_a_trial_of_up_to_a_minute_has_no_sustained_rate():
    assert sustained_rate([1.0] * 60, 8) == {}
    assert sustained_rate([], 8) == {}


def test_spent_credits_show_as_a_slower_end():
    """Ninety seconds of burst, then a third of the speed."""
    found = sustained_rate([0.5] * 180 + [1.5] * 100, 30)
    assert found["first_minute_samples_per_second"] == pytest.approx(60)
    assert found["sustained_samples_per_second"] == pytest.approx(20)
    assert found["sustained_over_seconds"] == pytest.approx(60, abs=1.5)


def test_a_stall_is_part_of_the_rate_of_its_minute():
    steps = [0.5] * 240
    steps[200] = 6.5
    found = sustained_rate(steps, 1)
    assert found["first_minute_samples_per_second"] == pytest.approx(2)
    assert found["sustained_samples_per_second"] == pytest.approx(2 * 0.9, rel=0.02)


def test_what_follows_the_first_minute_may_be_shorter_but_not_a_few_steps():
    assert sustained_rate([1.0] * 62, 1) == {}
    assert sustained_rate([1.0] * 85, 1) == {}
    assert sustained_rate([1.0] * 95, 1)["sustained_over_seconds"] == pytest.approx(35)
    assert sustained_rate([15.0] * 20, 1) == {}


def test_a_first_minute_that_does_not_count_is_told_however_short_the_rest_was():
    """3,003 steps of 20 ms are one minute."""
    whole = sustained_rate([0.02] * 3003, 1, first_minute=[0.015] * 4000)
    assert whole["first_minute_samples_per_second"] == pytest.approx(1 / 0.015)
    assert whole["sustained_samples_per_second"] == pytest.approx(50)
    brief = sustained_rate([0.02] * 20, 1, first_minute=[0.015] * 4000)
    assert brief == {"first_minute_samples_per_second": pytest.approx(1 / 0.015)}


@given(st.lists(st.floats(0.05, 20.0), max_size=300))
def test_both_rates_are_those_of_some_step(steps):
    found = sustained_rate(steps, 1)
    if found:
        for name in ("first_minute_samples_per_second", "sustained_samples_per_second"):
            assert 1 / max(steps) * 0.999 <= found[name] <= 1 / min(steps) * 1.001
