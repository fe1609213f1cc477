"""A trial of an endpoint decides what its interval decides, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.verification import Criterion, Verdict


def criterion(lower, upper, limit, is_least=True):
    middle = (lower + upper) / 2
    return Criterion(
        name="tpot_seconds", limit=limit, is_least=is_least, measured=middle, lower=lower, upper=upper
    )


@pytest.mark.parametrize(
    ("is_least", "limit", "verdict"),
    [
        (True, 9, Verdict.PASS),
        (True, 11, Verdict.UNDECIDED),
        (True, 13, Verdict.MISSED),
        (False, 13, Verdict.PASS),
        (False, 11, Verdict.UNDECIDED),
        (False, 9, Verdict.MISSED),
    ],
)
def test_the_whole_interval_must_lie_on_the_good_side(is_least, limit, verdict):
    """From 10 to 12: targets are reached from below, limits kept from above."""
    assert criterion(10, 12, limit, is_least).verdict is verdict


def test_what_was_not_measured_is_undecided():
    """A load without an answer says nothing."""
    nothing = Criterion(name="tpot_seconds", limit=1.0, is_least=False, measured=None, lower=None, upper=None)
    assert nothing.verdict is Verdict.UNDECIDED


@given(st.floats(0.1, 100), st.floats(0, 50), st.floats(0.1, 200), st.floats(0.1, 100))
def test_a_stricter_limit_never_turns_a_miss_into_a_pass(lower, width, limit, more):
    """For targets and for limits."""
    order = [Verdict.MISSED, Verdict.UNDECIDED, Verdict.PASS]
    for is_least in (True, False):
        stricter = limit + more if is_least else max(0.0, limit - more)
        now = criterion(lower, lower + width, limit, is_least).verdict
        then = criterion(lower, lower + width, stricter, is_least).verdict
        assert order.index(then) <= order.index(now)
