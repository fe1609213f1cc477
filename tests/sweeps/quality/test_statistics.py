import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.steps import stall_indices, typical_step_seconds
from benchmarks.steady_state import MIN_STEPS, REL_ERROR, compare
from sweeps.quality.statistics import measured_enough, step_interval

STEPS = st.lists(st.floats(1e-4, 10), min_size=1, max_size=80)


def noisy(count, spread=0.01, seed=0):
    draw = random.Random(seed)
    return [0.1 * (1 + draw.gauss(0, spread)) for _ in range(count)]


def enough(steps, **changes):
    return measured_enough(steps, **{"rel_error": 0.02, "min_steps": 6, **changes})


def test_real_series_with_warm_up_drift_and_outliers_give_the_right_rate_early():
    """On GPU series: bias below 1 %, with less than half the steps of three 10 % windows."""
    for window, length in ((10, 50), (50, 300)):
        result = compare(window, length, seeds=2)
        found, usual = result["ours"], result["three_windows"]
        assert abs(found["bias_percent"]) <= 1
        assert found["mean_iterations"] <= usual["mean_iterations"] / 2
    assert (REL_ERROR, MIN_STEPS) == (0.02, 6)


def test_even_steps_are_soon_enough_and_noisy_ones_later():
    assert enough(noisy(8))
    assert not enough(noisy(12, spread=0.2))
    assert enough(noisy(1500, spread=0.2))


def test_too_few_or_drifting_steps_are_never_enough():
    assert not enough(noisy(5))
    assert not enough([0.1 * 1.02**index for index in range(40)])


def test_a_narrower_interval_needs_more_steps():
    steps = noisy(60, spread=0.04)
    assert enough(steps, rel_error=0.03)
    assert not enough(steps, rel_error=0.003)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """Of 200 runs of bunched steps (period 2), 90 % or more intervals hold the true mean."""
    draw = random.Random(0)
    held = 0
    for _ in range(200):
        steps = [s * draw.uniform(0.8, 1.2) for _ in range(60) for s in (0.02, 0.18)]
        interval = step_interval(steps, period=2)
        held += interval.lower <= 0.1 <= interval.upper
    assert held >= 180


@given(STEPS, st.integers(1, 8))
def test_the_interval_holds_the_typical_step(steps, period):
    interval = step_interval(steps, period)
    if interval:
        assert interval.typical == typical_step_seconds(steps, period)
        assert interval.lower <= interval.typical <= interval.upper


@given(STEPS, st.integers(1, 8))
def test_the_typical_step_lies_among_the_steps(steps, period):
    typical = typical_step_seconds(steps, period)
    assert min(steps) * (1 - 1e-9) <= typical <= max(steps) * (1 + 1e-9)


def test_rare_stalls_are_flagged_and_do_not_move_the_rate():
    steps = noisy(100)
    for index in (3, 31, 55, 78, 90):
        steps[index] *= 3
    assert stall_indices(steps) == (3, 31, 55, 78, 90)
    assert typical_step_seconds(steps) == pytest.approx(0.1, rel=0.01)


def test_what_goes_fast_after_a_stall_does_not_make_up_for_it():
    """An accelerator takes 0.1 s a step, two batches ahead: a stall of 0.15 s, then a step of 0.05
    s; on the whole they are two steps in 0.2 s, as all others."""
    steps = noisy(100)
    for index in (3, 31, 55, 78, 90):
        steps[index : index + 2] = (0.15, 0.05)
    assert typical_step_seconds(steps) == pytest.approx(0.1, rel=0.005)


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_the_long_steps_of_a_loader_are_no_stalls(workers):
    """Workers that deliver together: one long wait, then as many batches at once."""
    rounds = [0.5 + index % 3 * 0.01 for index in range(20)]
    steps = [s for wait in rounds for s in (wait, *[0.01] * (workers - 1))]
    assert stall_indices(steps, workers) == ()
    assert typical_step_seconds(steps, workers) == pytest.approx(statistics.fmean(steps), rel=0.03)


def test_slightly_longer_steps_in_the_loaders_rhythm_are_no_stalls():
    steps = [0.15 if index % 16 == 5 else 0.1 for index in range(160)]
    assert stall_indices(steps, 16) == ()
    assert len(stall_indices(steps, 1)) == 10
