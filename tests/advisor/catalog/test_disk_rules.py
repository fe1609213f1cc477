"""Each volume type at the sizes where its rule bends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.errors import UsageError

DISKS = load_catalog().disks

# type, GiB, IOPS, MiB/s asked -> MiB/s, IOPS that are sustained
BREAKPOINTS = [
    ("gp2", 1, None, None, 25, 100),
    ("gp2", 33, None, None, 25, 100),
    ("gp2", 34, None, None, 25.5, 102),
    ("gp2", 100, None, None, 75, 300),
    ("gp2", 170, None, None, 127.5, 510),
    ("gp2", 171, None, None, 128, 513),
    ("gp2", 333, None, None, 128, 999),
    ("gp2", 334, None, None, 250, 1002),
    ("gp2", 5333, None, None, 250, 15999),
    ("gp2", 5334, None, None, 250, 16000),
    ("gp2", 16384, None, None, 250, 16000),
    ("gp3", 1, None, None, 125, 3000),
    ("gp3", 65536, None, None, 125, 3000),
    ("gp3", 100, None, 750, 750, 3000),
    ("gp3", 100, 4000, 1000, 1000, 4000),
    ("gp3", 100, 8000, 2000, 2000, 8000),
    ("gp3", 160, 80000, None, 125, 80000),
    ("io1", 4, None, None, 50, 200),
    ("io1", 4, 100, None, 25, 100),
    ("io1", 100, 2000, None, 500, 2000),
    ("io1", 1000, 32000, None, 500, 32000),
    ("io1", 1000, 48000, None, 750, 48000),
    ("io1", 1280, 64000, None, 1000, 64000),
    ("io2", 4, 4000, None, 1000, 4000),
    ("io2", 100, None, None, 750, 3000),
    ("io2", 100, 16000, None, 4000, 16000),
    ("io2", 256, 256000, None, 4000, 256000),
    ("st1", 125, None, None, 4.8828125, 4.8828125),
    ("st1", 1024, None, None, 40, 40),
    ("st1", 12800, None, None, 500, 500),
    ("st1", 16384, None, None, 500, 500),
    ("sc1", 125, None, None, 1.46484375, 1.46484375),
    ("sc1", 1024, None, None, 12, 12),
    ("sc1", 16384, None, None, 192, 192),
]


@pytest.mark.parametrize(("disk_type", "size", "iops", "asked", "rate", "sustained"), BREAKPOINTS)
def test_sustained_rate(disk_type, size, iops, asked, rate, sustained):
    """What a volume keeps for ever, burst credits never counted."""
    got = DISKS.volume_rate(disk_type, size, iops=iops, mib_per_second=asked)
    assert (got.read_mib_per_second, got.read_iops) == (
        pytest.approx(rate),
        pytest.approx(sustained),
    )


@pytest.mark.parametrize(
    ("disk_type", "size"),
    [
        ("gp2", 0.5),
        ("gp2", 16385),
        ("gp3", 65537),
        ("io1", 3),
        ("io2", 65537),
        ("st1", 124),
        ("sc1", 124),
        ("gp3", float("nan")),
        ("gp3", float("inf")),
        ("gp3", -1),
    ],
)
def test_sizes_that_are_not_sold_are_refused(disk_type, size):
    """The message names the range."""
    with pytest.raises(UsageError, match=r"GiB to \d+GiB, not"):
        DISKS.volume_rate(disk_type, size)


@pytest.mark.parametrize(
    ("disk_type", "size", "iops", "asked", "words"),
    [
        ("gp3", 10, 5001, None, "3000 to 5000 IOPS"),
        ("gp3", 1, 3001, None, "3000 to 3000 IOPS"),
        ("gp3", 100, 2999, None, "3000 to 50000 IOPS"),
        ("gp3", 1000, 80001, None, "3000 to 80000 IOPS"),
        ("gp3", 100, None, 751, "125 to 750MiB/s"),
        ("gp3", 100, None, 124, "125 to 750MiB/s"),
        ("gp3", 1000, 80000, 2001, "125 to 2000MiB/s"),
        ("io1", 10, 501, None, "100 to 500 IOPS"),
        ("io2", 300, 256001, None, "100 to 256000 IOPS"),
        ("gp2", 100, 1000, None, "cannot be provisioned"),
        ("st1", 200, 1000, None, "cannot be provisioned"),
        ("io2", 100, None, 500, "cannot be provisioned"),
        ("gp3", 100, float("nan"), None, "IOPS, not nan"),
    ],
)
def test_provisioning_that_is_not_sold_is_refused(disk_type, size, iops, asked, words):
    """The message names what the volume could have."""
    with pytest.raises(UsageError, match=words):
        DISKS.volume_rate(disk_type, size, iops=iops, mib_per_second=asked)


@given(
    st.sampled_from(sorted(DISKS.rules)),
    st.floats(125, 16384),
    st.floats(1, 4),
)
def test_a_larger_volume_is_never_slower_or_cheaper(disk_type, size, factor):
    """Rates and prices grow with the size, for every type."""
    larger = min(size * factor, 16384)
    small, big = DISKS.volume_rate(disk_type, size), DISKS.volume_rate(disk_type, larger)
    assert big.read_mib_per_second >= small.read_mib_per_second
    assert big.read_iops >= small.read_iops
    prices = [
        DISKS.volume_price(disk_type, gib, "us-east-1").usd_per_hour for gib in (size, larger)
    ]
    assert prices[1] >= prices[0] > 0


@given(st.sampled_from(["gp3", "io1", "io2"]), st.floats(3000, 50000), st.floats(1, 5))
def test_more_iops_are_never_slower_or_cheaper(disk_type, iops, factor):
    """Provisioned IOPS buy rate and cost money."""
    more = min(iops * factor, 50000)
    slow, fast = (DISKS.volume_rate(disk_type, 1000, iops=n) for n in (iops, more))
    assert fast.read_mib_per_second >= slow.read_mib_per_second
    cost = [DISKS.volume_price(disk_type, 1000, "us-east-1", iops=n) for n in (iops, more)]
    assert cost[1].usd_per_hour >= cost[0].usd_per_hour
