"""Each volume type at the sizes where its rule bends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.errors import UsageError
from tests.advisor.catalog.builders import order
from tests.rows import assert_each, table

DISKS = load_catalog().disks

TABLES = table("disks")
CATALOGS = [load_catalog().disks_of(cloud) for cloud in ("aws", "gcp", "alibaba")]


def disks_with(disk_type):
    """The cloud's disks that have the type."""
    return next(catalog for catalog in CATALOGS if disk_type in catalog.rules)


def test_sustained_rate():
    def check(disk_type, size, iops, question, rate, sustained, source):
        assert TABLES["sources"][source]
        if isinstance(rate, str):
            rate = float(rate.removesuffix(" MB/s")) * 1e6 / 2**20
        got = disks_with(disk_type).rate(order(disk_type, size, iops=iops, mib_per_second=question))
        assert (got.read_mib_per_second, got.read_iops) == (pytest.approx(rate), pytest.approx(sustained))

    assert_each(check, TABLES["sustained"])


def test_sizes_and_provisioning_that_are_not_sold_are_refused_with_those_that_are():
    def check(disk_type, size):
        with pytest.raises(UsageError, match=r"GiB to \d+GiB, not"):
            disks_with(disk_type).rate(order(disk_type, size))

    assert_each(check, TABLES["not_sold"])

    def check(disk_type, size, iops, question, words):
        with pytest.raises(UsageError, match=words):
            disks_with(disk_type).rate(order(disk_type, size, iops=iops, mib_per_second=question))

    assert_each(check, TABLES["not_provisioned"])


VOLUMES = [
    (load_catalog().disks_of(cloud), kind, region, st.integers(*sizes))
    for cloud, region, sizes in (("aws", "us-east-1", (125, 16384)), ("azure", "westeurope", (32, 32767)))
    for kind in sorted(load_catalog().disks_of(cloud).rules)
]


@given(st.sampled_from(VOLUMES), st.data())
def test_a_larger_volume_is_never_slower_or_cheaper(volume, data):
    """Rates and prices grow with the size, for every type of AWS and Azure."""
    disks, kind, region, gib = volume
    sizes = sorted((data.draw(gib), data.draw(gib)))
    small, big = (disks.rate(order(kind, gib)) for gib in sizes)
    assert big.read_mib_per_second >= small.read_mib_per_second
    assert big.read_iops >= small.read_iops
    prices = [disks.price(order(kind, gib), region).usd_per_hour for gib in sizes]
    assert prices[1] >= prices[0] > 0


@given(st.sampled_from(["gp3", "io1", "io2"]), st.floats(3000, 50000), st.floats(1, 5))
def test_more_iops_are_never_slower_or_cheaper(disk_type, iops, factor):
    more = min(iops * factor, 50000)
    slow, fast = (DISKS.rate(order(disk_type, 1000, iops=n)) for n in (iops, more))
    assert fast.read_mib_per_second >= slow.read_mib_per_second
    cost = [DISKS.price(order(disk_type, 1000, iops=n), "us-east-1") for n in (iops, more)]
    assert cost[1].usd_per_hour >= cost[0].usd_per_hour
