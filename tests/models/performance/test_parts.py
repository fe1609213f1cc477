"""The parts of the model: conformal widths, smooth minimum, scaling law, memory, operations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Task, Workload
from advisor.models.bayes import half_widths
from advisor.models.performance import load_model
from advisor.models.performance.join import smooth_minimum
from advisor.models.performance.machines import useful_cores

rates = st.floats(1e-3, 1e6)


@given(st.lists(rates, min_size=1, max_size=4), st.floats(1, 20))
def test_the_smooth_minimum_lies_below_the_minimum_and_not_far(values, gamma):
    """At most n^(1/gamma) below, which n equal stages reach; weights sum to one."""
    joined, weights = smooth_minimum(np.array([values]), gamma)
    assert joined[0] <= min(values) * (1 + 1e-12)
    assert joined[0] >= min(values) * len(values) ** (-1 / gamma) * (1 - 1e-12)
    assert weights.sum() == pytest.approx(1)
    assert weights[0, int(np.argmin(values))] == pytest.approx(weights.max())


def test_a_stage_that_a_request_lacks_counts_for_nothing():
    alone, _ = smooth_minimum(np.array([[5.0, 7.0]]), 4)
    with_infinite, weights = smooth_minimum(np.array([[5.0, 7.0, math.inf]]), 4)
    assert with_infinite == pytest.approx(alone)
    assert weights[0, 2] == 0


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.9])
def test_conformal_bounds_cover_as_often_as_they_promise(confidence):
    """Over many calibration sets of 50, fresh residuals fall below the bound often enough."""
    random = np.random.default_rng(1)
    below = []
    for _ in range(400):
        seen = np.sort(random.normal(0, 0.2, 50)).tolist()
        widths = half_widths({"a": seen}, ("a",), confidence)
        below.append(random.normal(0, 0.2, 20) <= widths.upper)
    assert np.mean(below) == pytest.approx(confidence, abs=0.03)
    assert np.mean(below) >= confidence - 0.01


def test_a_group_of_eight_borrows_from_the_wider_one():
    groups = {"near": [0.01] * 8, "wide": [-0.5] * 5 + [0.5] * 5}
    assert half_widths(groups, ("near", "wide"), 0.9).upper == 0.5
    groups["near"] = [0.01] * 9
    assert half_widths(groups, ("near", "wide"), 0.9) == (0.0, 0.01, True)


def test_no_group_being_large_enough_is_admitted():
    """99 % needs 99 residuals; with fewer the widths are a guess and say so."""
    widths = half_widths({"near": [-0.1, 0.1] * 10}, ("near",), 0.99)
    assert not widths.calibrated
    assert widths.upper > 0.1
    assert half_widths({}, ("near",), 0.9) == (math.inf, math.inf, False)


@given(st.floats(0.1, 256), st.floats(0, 0.2), st.floats(0, 1e-4))
def test_cores_never_give_more_than_themselves(cores, contention, coherence):
    useful = useful_cores(np.array([cores]), contention, coherence)[0]
    assert 0 < useful <= cores * (1 + 1e-12)
    if cores <= 1:
        assert useful == pytest.approx(cores)


def test_known_limits_of_real_cards_are_met():
    """ResNet-50 training in fp32 is known to fit 11 GB at batch 64 and not 16 GB at 256."""

    def needed(batch, task=Task.TRAINING):
        return load_model().gpu_memory_mib(Workload(network="resnet50", task=task, batch_size=batch))

    assert needed(64) < 11_000
    assert needed(256) > 16_000
    assert needed(64, Task.PREPROCESSING) == 0
