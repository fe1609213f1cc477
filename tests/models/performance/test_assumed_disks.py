"""A disk whose rate is assumed widens the interval where it binds, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import CacheState, DiskRate, Resources, Task, Workload
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.machines import DiskTable

A100 = paced_gpu("A100-SXM4-40GB")
WORKLOAD = Workload(network="resnet50", task=Task.TRAINING, batch_size=64)


def machine(mib_per_second, low=1.0, high=1.0, vcpus=96):
    """A host that feeds an A100, with such a disk."""
    disk = DiskRate(type="volume", read_mib_per_second=mib_per_second, read_iops=1e6, low=low, high=high)
    return Resources(vcpus=vcpus, physical_cores=vcpus / 2, memory_mib=60e3, disk=disk, gpu=A100)


def predicted(*machines, confidence=0.9):
    """One prediction a machine, nothing of the data in the page cache."""
    pairs = [(WORKLOAD, one) for one in machines]
    return load_model().predict(pairs, confidence=confidence, cache=CacheState.COLD)


def test_an_assumed_rate_widens_the_interval_as_far_as_the_disk_binds():
    """A slow disk that may be half or twice as fast takes both bounds almost that far along."""
    known, assumed = predicted(machine(20), machine(20, 0.5, 2.0))
    assert assumed.median == known.median
    ratio = np.log([assumed.median / assumed.lower, assumed.upper / assumed.median])
    at_90 = np.log(2) * 1.2816 / 1.6449
    assert (ratio > at_90).all()
    assert (ratio < at_90 + np.log(known.upper / known.lower)).all()


def test_a_disk_that_never_binds_may_be_assumed_without_a_wider_interval():
    known, assumed = predicted(machine(1e5), machine(1e5, 0.5, 2.0))
    assert assumed.lower == pytest.approx(known.lower, rel=1e-3)
    assert assumed.upper == pytest.approx(known.upper, rel=1e-3)


def test_what_the_page_cache_serves_is_not_in_doubt():
    """With RAM for the whole data set later epochs read nothing from the disk."""
    roomy = replace(machine(20, 0.1, 10.0), memory_mib=2e6)
    pairs = [(WORKLOAD, roomy), (WORKLOAD, replace(roomy, disk=machine(20).disk))]
    assumed, known = load_model().predict(pairs, cache=CacheState.WARM)
    assert assumed.lower == pytest.approx(known.lower, rel=1e-6)


@given(
    rate=st.floats(5, 5000),
    low=st.floats(0.05, 1),
    high=st.floats(1, 20),
    confidence=st.sampled_from([0.6, 0.8, 0.9]),
)
def test_doubt_never_narrows_and_rows_agree_however_they_are_asked(rate, low, high, confidence):
    known, assumed = predicted(machine(rate), machine(rate, low, high), confidence=confidence)
    assert assumed.lower <= known.lower * (1 + 1e-12)
    assert assumed.upper >= known.upper * (1 - 1e-12)
    rows = load_model().prepare([(WORKLOAD, machine(100))], confidence=confidence, cache=CacheState.COLD)
    disks = DiskTable.of([machine(rate, low, high).disk])
    (lower,) = np.exp(rows.log_lowers(np.array([0]), disks))
    assert lower == pytest.approx(assumed.lower, rel=1e-9)


def test_an_interval_that_does_not_hold_the_rate_is_refused():
    with pytest.raises(ValueError, match=r"between 1\.5 and 2"):
        DiskRate(type="volume", low=1.5, high=2.0)
