from hypothesis import given
from hypothesis import strategies as st

from sweeps.quality.timing import count_warmup_steps, is_steady


def test_equal_steps_are_steady_from_the_first():
    assert is_steady([0.1] * 10)
    assert count_warmup_steps([0.1] * 20) == 0


def test_slow_first_steps_are_warm_up():
    assert count_warmup_steps([0.5, 0.4] + [0.1] * 18) == 2


def test_steps_that_keep_drifting_are_not_steady():
    assert not is_steady([1.1**i for i in range(20)])


def test_where_nothing_is_steady_the_later_half_counts():
    assert count_warmup_steps([1.2**i for i in range(20)]) == 10


def test_long_and_short_steps_in_turn_are_no_drift():
    assert is_steady([0.01, 0.2] * 10)


def test_too_few_steps_are_never_steady():
    assert not is_steady([0.1, 0.1, 0.1])


@given(st.lists(st.floats(1e-4, 10), max_size=60))
def test_at_most_half_of_the_steps_are_warm_up(steps):
    assert 0 <= count_warmup_steps(steps) <= len(steps) // 2
