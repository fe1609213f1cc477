"""Decoding is the real thing, and what a second thread adds is told only where there is one."""

import random

import numpy as np
import pytest

from advisor.sweeps.datasets.photographs import make_sample
from advisor.sweeps.probe import decode
from advisor.sweeps.probe.decode import decode as decode_one
from tests.sweeps.probe.test_session import _session


def test_a_photograph_becomes_a_square_of_pixels():
    pixels = decode_one(make_sample(random.Random(1)), random.Random(2))
    assert pixels.shape == (224, 224, 3)
    assert pixels.dtype == np.uint8
    assert pixels.std() > 5


def test_the_yield_of_the_second_threads_is_their_share_more():
    found = decode._hyperthread_yield({4: [100.0] * 5, 8: [130.0] * 5}, 4, 8)
    assert found["value"] == pytest.approx(0.3)


def test_without_second_threads_there_is_no_yield():
    assert "one hardware thread" in decode._hyperthread_yield({2: [1.0]}, 2, 2)["skipped"]


@pytest.mark.slow
def test_real_processes_decode_and_are_gone(tmp_path):
    import multiprocessing

    found = decode.probe(_session(tmp_path, 60.0))
    rates = {int(count): one["value"] for count, one in found["threads"].items()}
    assert min(rates.values()) > 1
    assert min(rates) == 1
    assert multiprocessing.active_children() == []
