"""The latency of another disk type: for what comes from the disk, not for what is cached."""

import os
import time
from contextlib import contextmanager

import pytest

from advisor.sweeps.datasets import source as slowed
from advisor.sweeps.datasets.opening import open_dataset
from advisor.sweeps.datasets.source import LatencyInjected
from advisor.sweeps.worker.page_cache import cached_share, evict

SECONDS = 0.02


@pytest.fixture
def images(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(os.urandom(50_000))
    os.sync()
    return open_dataset(tmp_path)


@contextmanager
def slept(monkeypatch):
    seconds = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    yield seconds


def test_a_read_that_the_disk_answered_waits_for_what_is_left(images, monkeypatch):
    counts = iter([0, 8, 8, 8])
    monkeypatch.setattr(slowed, "_blocks_read", lambda: next(counts))
    with slept(monkeypatch) as seconds:
        source = LatencyInjected(images, SECONDS)
        assert source.read(0) == images.read(0)
        source.read(1)
    assert len(seconds) == 1
    assert 0 < seconds[0] <= SECONDS


def test_the_kernel_tells_cached_reads_from_those_of_the_disk(images, monkeypatch):
    evict(images.files)
    if cached_share(images.files) != 0:
        pytest.skip("these files do not leave the page cache (tmpfs)")
    source = LatencyInjected(images, SECONDS)
    with slept(monkeypatch) as seconds:
        source.read(2)
        source.read(2)
    assert len(seconds) == 1
