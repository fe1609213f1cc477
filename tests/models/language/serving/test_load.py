"""Requests that come at random: how many are in flight, and where capacity ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.models.language.deployments import Traffic
from advisor.models.language.serving import ServingPredictor, bundled_serving_predictor
from advisor.models.language.serving.rates import open_loop
from tests.models.language.serving.test_predictor import DEPLOYMENTS, deployed

TRAFFIC = Traffic(500, 250)


def test_few_requests_find_the_replica_alone(predictor: ServingPredictor) -> None:
    """At a hundredth of a request a second nobody waits for anybody; what comes before a first
    token was measured apart for requests that arrive by themselves, and is shorter."""
    idle = predictor.under_load([deployed()], TRAFFIC, [0.01])
    alone = predictor.closed_loop([deployed()], TRAFFIC, [1.0])
    assert idle.tpot_seconds.median == pytest.approx(alone.tpot_seconds.median, rel=0.01)
    assert 0.4 < idle.ttft_seconds.median[0] / alone.ttft_seconds.median[0] <= 1.0


@settings(max_examples=30, deadline=None)
@given(DEPLOYMENTS, st.floats(0.01, 3), st.floats(1.05, 3))
def test_more_requests_are_never_faster(deployment, rate: float, times: float) -> None:  # type: ignore[no-untyped-def]
    """Both times grow with the load until capacity, beyond which there is no rate."""
    rates = bundled_serving_predictor().under_load([deployment] * 2, TRAFFIC, [rate, rate * times])
    for bounds in (rates.tpot_seconds, rates.ttft_seconds):
        low, high = bounds.median
        assert np.isnan(high) or high >= low * (1 - 1e-6)
    assert np.isnan(rates.in_flight[1]) or rates.in_flight[1] > rates.in_flight[0]


def test_requests_in_flight_are_rate_times_seconds(predictor: ServingPredictor) -> None:
    """Little's law, below the load at which requests wait for a place."""
    rate = 2.0
    rates = predictor.under_load([deployed()], TRAFFIC, [rate])
    whole = rates.ttft_seconds.median + TRAFFIC.output_tokens * rates.tpot_seconds.median
    assert rates.in_flight == pytest.approx(rate * whole, rel=0.01)
    assert rates.output_tokens_per_second.median == pytest.approx(rate * 250)


def test_beyond_capacity_there_is_no_rate(predictor: ServingPredictor) -> None:
    """A queue that only grows has no mean."""
    rates = predictor.under_load([deployed()], TRAFFIC, [1000.0])
    for bounds in rates[:3]:
        assert np.isnan(bounds.median[0])
        assert np.isnan(bounds.lower[0])
    assert np.isnan(rates.in_flight[0])


def test_a_place_is_waited_for_when_memory_binds() -> None:
    """One place, a constant second of service: M/M/1 at 80 % waits four services."""
    flow = open_loop(lambda in_flight: np.ones_like(in_flight), np.array([0.8]), np.array([1.0]))
    assert flow.waiting_seconds[0] == pytest.approx(4.0, rel=0.01)
    over = open_loop(lambda in_flight: np.ones_like(in_flight), np.array([1.2]), np.array([1.0]))
    assert np.isnan(over.in_flight[0])
