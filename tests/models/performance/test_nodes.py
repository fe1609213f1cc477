"""The all-reduce between nodes: bytes, ranks and the network's rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.performance.nodes import LATENCY_SECONDS, PAYLOAD_SHARE, all_reduce_seconds

BYTES, RATES = st.floats(1.0, 1e12), st.floats(0.01, 4000.0)


def test_two_ranks_send_their_gradients_once():
    """Each sends half of them, adds, and sends half of the sums: as many bytes as it has."""
    wire_seconds = 8e9 / (PAYLOAD_SHARE * 10e9)
    assert all_reduce_seconds(1e9, 2, 10.0) == pytest.approx(wire_seconds + 2 * LATENCY_SECONDS)


@given(size=BYTES, ranks=st.integers(2, 512), rate=RATES)
def test_more_ranks_or_bytes_never_take_less(size, ranks, rate):
    one = all_reduce_seconds(size, ranks, rate)
    assert all_reduce_seconds(size, ranks + 1, rate) > one
    assert all_reduce_seconds(2 * size, ranks, rate) > one
    assert all_reduce_seconds(size, ranks, 2 * rate) < one


@given(size=BYTES, rate=RATES)
def test_bytes_on_the_wire_stay_below_twice_the_gradients(size, rate):
    """However many ranks: that is what makes the ring bandwidth-optimal."""
    ranks = np.array([2.0, 10.0, 1000.0])
    transfer = all_reduce_seconds(size, ranks, rate) - 2 * (ranks - 1) * LATENCY_SECONDS
    assert (transfer <= 2 * 8 * size / (PAYLOAD_SHARE * rate * 1e9) * (1 + 1e-6) + 1e-9).all()
