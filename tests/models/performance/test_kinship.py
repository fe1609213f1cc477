"""A network like measured ones takes their deviation, one like none takes little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Task
from advisor.models.performance.kinship import kinship_of
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.step_times import features_of
from advisor.models.performance.step_times_file import bundled_step_times


def two_families(low=-0.3, high=0.3):
    """Forty measured steps: one kind at the origin that is faster, another far off, slower."""
    rng = np.random.default_rng(0)
    near, far = rng.normal(0, 0.05, (20, 4)), rng.normal(0, 0.05, (20, 4)) + 10
    residuals = np.repeat([low, high], 20)
    return np.vstack([near, far]), residuals, np.full(40, 0.1**2)


@pytest.mark.parametrize(("place", "deviation"), [(0.0, -0.3), (10.0, 0.3)])
def test_a_network_like_measured_ones_takes_their_deviation(place, deviation):
    """Little is left to doubt of a network among many that are like it."""
    features, residuals, noise = two_families()
    kinship = kinship_of(features, residuals, noise)
    means, variances = kinship.deviation(np.full((1, 4), place))
    assert means[0] == pytest.approx(deviation, abs=0.1)
    between = kinship.deviation(np.full((1, 4), 5.0))
    assert abs(between[0][0]) < abs(means[0])
    assert variances[0] < between[1][0]


@given(st.lists(st.floats(-50, 50), min_size=4, max_size=4))
def test_the_doubt_is_never_negative_nor_more_than_without_relatives(place):
    kinship = kinship_of(*two_families())
    means, variances = kinship.deviation(np.array([place]))
    assert 0 <= variances[0] <= 0.03 + 1e-9
    assert abs(means[0]) <= 0.45


def test_one_level_of_all_is_no_deviation_of_some():
    """Where every step deviates alike, so does a strange one."""
    features, _, noise = two_families()
    kinship = kinship_of(features, np.full(40, 0.2), noise)
    means, _ = kinship.deviation(np.array([[30.0, -30.0, 3.0, 0.0]]))
    assert means[0] == pytest.approx(0.2)


def test_relatives_lie_near_each_other_by_what_they_compute():
    """ResNet-34 is nearer to ResNet-50 than a transformer is, in training and in inference."""
    table, posterior = bundled_networks(), bundled_step_times().posterior
    facts = [table[name] for name in ("resnet50", "resnet101", "vit_b_16")]
    for task in (Task.TRAINING, Task.INFERENCE):
        found = features_of(facts, [task] * 3, posterior)
        assert np.isfinite(found).all()
        apart = np.linalg.norm(found - found[0], axis=1)
        assert 0 < apart[1] < apart[2]
