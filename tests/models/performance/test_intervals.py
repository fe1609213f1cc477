"""Quantiles that intervals are made of."""

from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.models.performance.intervals import gaussian_multiplier


@given(st.floats(min_value=0.5, max_value=0.9999))
def test_the_normal_quantile_is_that_of_the_standard_library(confidence):
    assert gaussian_multiplier(confidence) == pytest.approx(NormalDist().inv_cdf(confidence), abs=1e-9)
