"""Each volume type at the sizes where its rule bends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.errors import UsageError
from tests.rows import assert_each

DISKS = load_catalog().disks

# Where each number is documented.
GP = "EC2 User Guide, general-purpose.md"
GP_2025 = "EBS announcement of 2025-09: gp3 up to 64 TiB, 80,000 IOPS, 2,000 MiB/s"
PIOPS = "EC2 User Guide, provisioned-iops.md"
HDD = "EC2 User Guide, hdd-vols.md, tables of base and burst throughput"
PD = "Compute Engine, Persistent Disk performance: baseline, per GiB and per instance limits"
ECS = "Alibaba Cloud ECS, EBS performance.md: formulas of a single disk, in MB/s"
MB = 1e6 / 2**20
CATALOGS = [load_catalog().disks_of(cloud) for cloud in ("aws", "gcp", "alibaba")]

# type, GiB, IOPS, MiB/s asked -> MiB/s, IOPS that are sustained, source
BREAKPOINTS = [
    ("gp2", 1, None, None, 25, 100, GP),
    ("gp2", 33, None, None, 25, 100, GP),
    ("gp2", 34, None, None, 25.5, 102, GP),
    ("gp2", 100, None, None, 75, 300, GP),
    ("gp2", 170, None, None, 127.5, 510, GP),
    ("gp2", 171, None, None, 128, 513, GP),
    ("gp2", 333, None, None, 128, 999, GP),
    ("gp2", 334, None, None, 250, 1002, GP),
    ("gp2", 5333, None, None, 250, 15999, GP),
    ("gp2", 5334, None, None, 250, 16000, GP),
    ("gp2", 16384, None, None, 250, 16000, GP),
    ("gp3", 1, None, None, 125, 3000, GP),
    ("gp3", 65536, None, None, 125, 3000, GP),
    ("gp3", 100, None, 750, 750, 3000, GP),
    ("gp3", 100, 4000, 1000, 1000, 4000, GP),
    ("gp3", 100, 8000, 2000, 2000, 8000, GP),
    ("gp3", 160, 80000, None, 125, 80000, GP),
    ("io1", 4, None, None, 50, 200, PIOPS),
    ("io1", 4, 100, None, 25, 100, PIOPS),
    ("io1", 100, 2000, None, 500, 2000, PIOPS),
    ("io1", 1000, 32000, None, 500, 32000, PIOPS),
    ("io1", 1000, 48000, None, 750, 48000, PIOPS),
    ("io1", 1280, 64000, None, 1000, 64000, PIOPS),
    ("io2", 4, 4000, None, 1000, 4000, PIOPS),
    ("io2", 100, None, None, 750, 3000, PIOPS),
    ("io2", 100, 16000, None, 4000, 16000, PIOPS),
    ("io2", 256, 256000, None, 4000, 256000, PIOPS),
    ("st1", 125, None, None, 4.8828125, 4.8828125, HDD),
    ("st1", 1024, None, None, 40, 40, HDD),
    ("st1", 12800, None, None, 500, 500, HDD),
    ("st1", 16384, None, None, 500, 500, HDD),
    ("sc1", 125, None, None, 1.46484375, 1.46484375, HDD),
    ("sc1", 1024, None, None, 12, 12, HDD),
    ("sc1", 16384, None, None, 192, 192, HDD),
    ("gp2", 169, None, None, 126.75, 507, GP),
    ("gp2", 170.7, None, None, 128, 512.1, GP),
    ("gp2", 999, None, None, 250, 2997, GP),
    ("gp2", 1000, None, None, 250, 3000, GP),
    ("gp3", 1, 3000, 125, 125, 3000, GP),
    ("gp3", 6, 3000, None, 125, 3000, GP),
    ("gp3", 8, 4000, 1000, 1000, 4000, GP),
    ("gp3", 32, 16000, None, 125, 16000, GP),
    ("gp3", 159, 79500, None, 125, 79500, GP_2025),
    ("gp3", 160, 80000, 2000, 2000, 80000, GP_2025),
    ("gp3", 500, 3001, 750, 750, 3001, GP),
    ("gp3", 500, 7999, 1999, 1999, 7999, GP_2025),
    ("io1", 100, 1999, None, 499.75, 1999, PIOPS),
    ("io1", 100, 2001, None, 500, 2001, PIOPS),
    ("io1", 100, 5000, None, 500, 5000, PIOPS),
    ("io1", 1000, 32001, None, 500.015625, 32001, PIOPS),
    ("io1", 1279, 63950, None, 999.21875, 63950, PIOPS),
    ("io2", 4, 100, None, 25, 100, PIOPS),
    ("io2", 100, 15999, None, 3999.75, 15999, PIOPS),
    ("io2", 100, 16001, None, 4000, 16001, PIOPS),
    ("io2", 255, 255000, None, 4000, 255000, PIOPS),
    ("st1", 128, None, None, 5, 5, HDD),
    ("st1", 512, None, None, 20, 20, HDD),
    ("st1", 2048, None, None, 80, 80, HDD),
    ("st1", 12799, None, None, 499.9609375, 499.9609375, HDD),
    ("st1", 12801, None, None, 500, 500, HDD),
    ("sc1", 128, None, None, 1.5, 1.5, HDD),
    ("sc1", 512, None, None, 6, 6, HDD),
    ("sc1", 3200, None, None, 37.5, 37.5, HDD),
    ("sc1", 16383, None, None, 191.98828125, 191.98828125, HDD),
    ("pd-standard", 10, None, None, 1.2, 7.5, PD),
    ("pd-standard", 9999, None, None, 1199.88, 7499.25, PD),
    ("pd-standard", 10000, None, None, 1200, 7500, PD),
    ("pd-standard", 10001, None, None, 1200, 7500, PD),
    ("pd-balanced", 10, None, None, 142.8, 3060, PD),
    ("pd-balanced", 3785, None, None, 1199.8, 25710, PD),
    ("pd-balanced", 3786, None, None, 1200, 25716, PD),
    ("pd-balanced", 12833, None, None, 1200, 79998, PD),
    ("pd-balanced", 12834, None, None, 1200, 80000, PD),
    ("pd-ssd", 10, None, None, 244.8, 6300, PD),
    ("pd-ssd", 2000, None, None, 1200, 66000, PD),
    ("pd-ssd", 1999, None, None, 1199.52, 65970, PD),
    ("pd-ssd", 3133, None, None, 1200, 99990, PD),
    ("pd-ssd", 3134, None, None, 1200, 100000, PD),
    ("cloud_efficiency", 20, None, None, 103 * MB, 1960, ECS),
    ("cloud_efficiency", 266, None, None, 139.9 * MB, 3928, ECS),
    ("cloud_efficiency", 267, None, None, 140 * MB, 3936, ECS),
    ("cloud_efficiency", 399, None, None, 140 * MB, 4992, ECS),
    ("cloud_efficiency", 400, None, None, 140 * MB, 5000, ECS),
    ("cloud_efficiency", 401, None, None, 140 * MB, 5000, ECS),
    ("cloud_ssd", 20, None, None, 130 * MB, 2400, ECS),
    ("cloud_ssd", 359, None, None, 299.5 * MB, 12570, ECS),
    ("cloud_ssd", 360, None, None, 300 * MB, 12600, ECS),
    ("cloud_ssd", 773, None, None, 300 * MB, 24990, ECS),
    ("cloud_ssd", 774, None, None, 300 * MB, 25000, ECS),
    ("cloud_essd_pl0", 40, None, None, 110 * MB, 2280, ECS),
    ("cloud_essd_pl0", 319, None, None, 179.75 * MB, 5628, ECS),
    ("cloud_essd_pl0", 320, None, None, 180 * MB, 5640, ECS),
    ("cloud_essd_pl0", 683, None, None, 180 * MB, 9996, ECS),
    ("cloud_essd_pl0", 684, None, None, 180 * MB, 10000, ECS),
    ("cloud_essd_pl1", 20, None, None, 130 * MB, 2800, ECS),
    ("cloud_essd_pl1", 460, None, None, 350 * MB, 24800, ECS),
    ("cloud_essd_pl1", 459, None, None, 349.5 * MB, 24750, ECS),
    ("cloud_essd_pl1", 964, None, None, 350 * MB, 50000, ECS),
    ("cloud_essd_pl1", 963, None, None, 350 * MB, 49950, ECS),
    ("cloud_essd_pl2", 461, None, None, 350.5 * MB, 24850, ECS),
    ("cloud_essd_pl2", 1260, None, None, 750 * MB, 64800, ECS),
    ("cloud_essd_pl2", 1964, None, None, 750 * MB, 100000, ECS),
    ("cloud_essd_pl3", 1261, None, None, 750.5 * MB, 64850, ECS),
    ("cloud_essd_pl3", 7760, None, None, 4000 * MB, 389800, ECS),
    ("cloud_essd_pl3", 19963, None, None, 4000 * MB, 999950, ECS),
    ("cloud_essd_pl3", 19964, None, None, 4000 * MB, 1000000, ECS),
]


def disks_with(disk_type):
    """The cloud's disks that have the type."""
    return next(one for one in CATALOGS if disk_type in one.rules)


def test_sustained_rate():
    """What a volume keeps for ever, burst credits never counted."""

    def check(disk_type, size, iops, asked, rate, sustained, source):
        assert source
        got = disks_with(disk_type).volume_rate(disk_type, size, iops=iops, mib_per_second=asked)
        assert (got.read_mib_per_second, got.read_iops) == (pytest.approx(rate), pytest.approx(sustained))

    assert_each(check, BREAKPOINTS)


def test_sizes_that_are_not_sold_are_refused():
    """The message names the range."""

    def check(disk_type, size):
        with pytest.raises(UsageError, match=r"GiB to \d+GiB, not"):
            disks_with(disk_type).volume_rate(disk_type, size)

    assert_each(
        check,
        [
            ("gp2", 0.5),
            ("gp2", 16385),
            ("gp3", 65537),
            ("io1", 3),
            ("io2", 65537),
            ("st1", 124),
            ("sc1", 124),
            ("pd-standard", 9),
            ("pd-balanced", 65537),
            ("cloud_efficiency", 19),
            ("cloud_ssd", 32769),
            ("cloud_essd_pl0", 39),
            ("cloud_essd_pl2", 460),
            ("cloud_essd_pl3", 1260),
            ("gp3", float("nan")),
            ("gp3", float("inf")),
            ("gp3", -1),
        ],
    )


def test_provisioning_that_is_not_sold_is_refused():
    """The message names what the volume could have."""

    def check(disk_type, size, iops, asked, words):
        with pytest.raises(UsageError, match=words):
            disks_with(disk_type).volume_rate(disk_type, size, iops=iops, mib_per_second=asked)

    assert_each(
        check,
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
            ("gp3", 32, 16001, None, "3000 to 16000 IOPS"),
            ("gp3", 500, 7999, 2000, "125 to 1999.75MiB/s"),
            ("io1", 4, 99, None, "100 to 200 IOPS"),
            ("io1", 1280, 64001, None, "100 to 64000 IOPS"),
            ("io2", 4, 4001, None, "100 to 4000 IOPS"),
            ("pd-ssd", 100, 9000, None, "cannot be provisioned"),
            ("cloud_ssd", 100, None, 200, "cannot be provisioned"),
            ("gp3", 100, float("nan"), None, "IOPS, not nan"),
        ],
    )


@given(st.sampled_from(sorted(DISKS.rules)), st.floats(125, 16384), st.floats(1, 4))
def test_a_larger_volume_is_never_slower_or_cheaper(disk_type, size, factor):
    """Rates and prices grow with the size, for every type."""
    larger = min(size * factor, 16384)
    small, big = DISKS.volume_rate(disk_type, size), DISKS.volume_rate(disk_type, larger)
    assert big.read_mib_per_second >= small.read_mib_per_second
    assert big.read_iops >= small.read_iops
    prices = [DISKS.volume_price(disk_type, gib, "us-east-1").usd_per_hour for gib in (size, larger)]
    assert prices[1] >= prices[0] > 0


@given(st.sampled_from(["gp3", "io1", "io2"]), st.floats(3000, 50000), st.floats(1, 5))
def test_more_iops_are_never_slower_or_cheaper(disk_type, iops, factor):
    """Provisioned IOPS buy rate and cost money."""
    more = min(iops * factor, 50000)
    slow, fast = (DISKS.volume_rate(disk_type, 1000, iops=n) for n in (iops, more))
    assert fast.read_mib_per_second >= slow.read_mib_per_second
    cost = [DISKS.volume_price(disk_type, 1000, "us-east-1", iops=n) for n in (iops, more)]
    assert cost[1].usd_per_hour >= cost[0].usd_per_hour
