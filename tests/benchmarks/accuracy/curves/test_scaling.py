"""Rates over vCPUs from three trials: damped doublings, and ramps up to a cap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy.curves.scaling import (
    USUAL_DAMPING,
    VcpuCurve,
    doubling_slope,
    fit_damping,
    fit_ramp,
    next_doubling,
)

EVEN = np.full(3, 0.02)
VCPUS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 24.0])


def capped(workload, exponent, cap):
    return VcpuCurve(workload=workload, vcpus=VCPUS, rates=np.minimum(VCPUS**exponent, cap))


@given(st.floats(0.0, 1.0), st.floats(1.0, 1e4))
def test_a_power_law_goes_on_when_nothing_damps_it(exponent, rate):
    rates = rate * np.array([1.0, 2.0, 4.0]) ** exponent
    assert next_doubling(rates, EVEN, 1.0) == pytest.approx(rate * 8**exponent)


def test_a_last_gain_above_the_first_is_taken_for_noise():
    jumpy = np.array([1.0, 1.2, 2.4])
    assert doubling_slope(jumpy, EVEN) == pytest.approx(np.log(2.4) / 2)


def test_an_unknown_scatter_counts_like_any_other():
    jumpy = np.array([1.0, 1.2, 2.4])
    assert doubling_slope(jumpy, np.full(3, np.nan)) == pytest.approx(doubling_slope(jumpy, EVEN))


def test_the_damping_is_the_middle_one_and_one_strange_curve_moves_it_little():
    slopes = np.array([0.6, 0.5, 0.7, 0.4, 0.6])
    gains = 0.8 * slopes
    gains[3] = 5.0
    assert fit_damping(slopes, gains) == pytest.approx(0.8)
    assert fit_damping(np.empty(0), np.empty(0)) == USUAL_DAMPING


@given(st.floats(0.6, 1.0), st.floats(2.0, 12.0))
def test_a_capped_power_law_is_completed_from_three_trials(exponent, cap):
    others = [capped(f"n{i}", exponent, 3.0 + 2 * i) for i in range(4)]
    ramp = fit_ramp(others)
    new = capped("new", exponent, cap)
    completed = ramp.predict(new, ramp.third_trial(new))
    assert completed == pytest.approx(new.rates, rel=0.12)


def test_nothing_ever_exceeds_the_highest_rate_that_was_measured():
    ramp = fit_ramp([])
    new = capped("new", 1.0, 5.0)
    assert ramp.predict(new, ramp.third_trial(new)).max() <= 5.0


def test_a_workload_that_needs_no_vcpus_stays_flat():
    ramp = fit_ramp([])
    flat = VcpuCurve(workload="flat", vcpus=VCPUS, rates=np.ones(len(VCPUS)))
    assert ramp.predict(flat, ramp.third_trial(flat)) == pytest.approx(np.ones(len(VCPUS)))
