from hypothesis import given
from hypothesis import strategies as st

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


def test_a_single_long_step_is_a_stall_wherever_it_stands():
    for place in range(20):
        assert count_warmup_steps([30.0 if n == place else 0.1 for n in range(20)]) == 0


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
