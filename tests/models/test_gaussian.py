"""One Gaussian that measured rows condition."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.models.gaussian import Floats, conditioned, variances


def test_a_linear_row_is_conditioned_as_the_formula_says() -> None:
    """A sum of two unknowns with variances 1 and 3, measured with variance 4: half of the
    surprise is taken, a quarter of it by the first."""

    def sum_of(theta: Floats) -> tuple[Floats, Floats]:
        return theta.sum(keepdims=True), np.ones((1, 2))

    mean, covariance = conditioned(np.zeros(2), np.diag([1.0, 3.0]), sum_of, np.array([8.0]), np.array([2.0]))
    assert mean == pytest.approx([1.0, 3.0])
    assert variances(np.ones((1, 2)), covariance) == pytest.approx([2.0])


def test_a_bent_row_is_found_by_repeating() -> None:
    """A precise measurement of exp(theta) ends at its logarithm."""

    def power(theta: Floats) -> tuple[Floats, Floats]:
        return np.exp(theta), np.exp(theta)[:, None]

    mean, _ = conditioned(np.zeros(1), np.eye(1), power, np.array([2.0]), np.array([1e-4]), most_updates=20)
    assert mean == pytest.approx([np.log(2.0)], rel=1e-3)
