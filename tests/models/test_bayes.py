"""One Gaussian that measured rows condition, and bounds from held-out residuals."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.models.bayes import Floats, Prior, believed, gaussian_multiplier, held_out, joined, variances


def test_a_linear_row_is_conditioned_as_the_formula_says() -> None:
    """A sum of two unknowns with variances 1 and 3, measured with variance 4: half of the
    surprise is taken, a quarter of it by the first."""

    def sum_of(theta: Floats) -> tuple[Floats, Floats]:
        return theta.sum(keepdims=True), np.ones((1, 2))

    known = joined([believed("a", [Prior(0.0, 1.0)]), believed("b", [Prior(0.0, 3.0**0.5)])])
    after = known.updated(sum_of, np.array([8.0]), np.array([2.0]))
    assert after.mean == pytest.approx([1.0, 3.0])
    assert variances(np.ones((1, 2)), after.covariance) == pytest.approx([2.0])


def test_a_bent_row_is_found_by_repeating() -> None:
    """A precise measurement of exp(theta) ends at its logarithm."""

    def power(theta: Floats) -> tuple[Floats, Floats]:
        return np.exp(theta), np.exp(theta)[:, None]

    known = believed("a", [Prior(0.0, 1.0)])
    after = known.updated(power, np.array([2.0]), np.array([1e-4]), most_updates=20)
    assert after.mean == pytest.approx([np.log(2.0)], rel=1e-3)


def test_a_row_far_off_the_others_counts_less() -> None:
    """Nine rows say 0, one says 10: robustly, the mean stays near the nine."""

    def same(theta: Floats) -> tuple[Floats, Floats]:
        return np.repeat(theta, 10), np.ones((10, 1))

    known, rows, sigma = believed("a", [Prior(0.0, 10.0)]), np.array([0.0] * 9 + [10.0]), np.ones(10)
    plain = known.updated(same, rows, sigma).mean[0]
    assert abs(known.updated_robustly(same, rows, sigma, rounds=10).mean[0]) < plain / 5


def test_a_row_is_told_by_those_of_other_groups() -> None:
    """The mean of all rows but the own group's."""
    values = np.array([1.0, 2.0, 6.0])
    told = held_out(["a", "a", "b"], lambda out: np.full(out.sum(), values[~out].mean()))
    assert told.tolist() == [6.0, 6.0, 1.5]


@given(st.floats(min_value=0.5, max_value=0.9999))
def test_the_normal_quantile_is_that_of_the_standard_library(confidence: float) -> None:
    """Newton's method finds what the standard library tells."""
    assert gaussian_multiplier(confidence) == pytest.approx(NormalDist().inv_cdf(confidence), abs=1e-9)
