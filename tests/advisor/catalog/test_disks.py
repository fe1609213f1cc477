"""Disks by themselves and on instances: rules, effective rate, price, parsing, candidates, what they lend."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice
from advisor.errors import NoOfferError, UsageError
from tests.advisor.catalog.builders import make_cpu_instance, make_instance, order
from tests.rows import assert_each, table

DISKS = load_catalog().disks
EAST = "us-east-1"


def test_a_volume_costs_its_monthly_list_price_and_its_rate_needs_none():
    """Over 730 hours, dated as the list is. Where the list has no io2 it is missing."""

    def check(disk_type, size, question, month):
        price = DISKS.price(order(disk_type, size, **question), EAST)
        assert price.usd_per_hour == pytest.approx(month / 730)
        assert price.as_of.isoformat() == "2024-07-18"

    assert_each(check, table("disks")["volume_prices"])
    with pytest.raises(NoOfferError, match="no price of io2 in af-south-1"):
        DISKS.price(order("io2", 100), "af-south-1")
    # Where nobody tells it, a prediction asks for the rate alone; nothing is free.
    instance, volume = load_catalog().instance("g4dn.xlarge"), order("io2", 100, iops=3000)
    with pytest.raises(NoOfferError):
        DISKS.attach(instance, volume, "af-south-1")
    disk = DISKS.attach(instance, volume, "af-south-1", unpriced=True)
    assert disk.known_usd_per_hour is None
    assert disk.rate == DISKS.attach(instance, volume, EAST).rate


@given(
    st.sampled_from(sorted(DISKS.rules)), st.floats(125, 16384), st.floats(1, 10000), st.floats(50, 400000)
)
def test_effective_rates_never_exceed_either_limit(disk_type, size, limit, iops_limit):
    instance = make_instance(ebs_baseline_mib_per_second=limit, ebs_baseline_iops=iops_limit)
    volume = DISKS.rate(order(disk_type, size))
    disk = DISKS.attach(instance, order(disk_type, size), EAST)
    assert disk.rate.read_mib_per_second == min(volume.read_mib_per_second, limit)
    assert disk.rate.read_iops == min(volume.read_iops, iops_limit)
    assert (disk.binding_limit == "instance") == (limit < volume.read_mib_per_second)


def test_local_disks_cost_nothing_more_and_read_at_their_floor():
    """g4dn.xlarge: 42,500 random reads of 4 KiB a second, so at least 166 MiB/s."""
    disk = DISKS.attach(load_catalog().instance("g4dn.xlarge"), order("instance_store", 100), EAST)
    assert (disk.usd_per_hour, disk.rate.read_iops) == (0.0, 42500)
    assert disk.rate.read_mib_per_second == pytest.approx(42500 * 4 / 1024)
    assert disk.size_gib == pytest.approx(125e9 / 2**30)


@given(st.text(max_size=20))
def test_any_text_is_a_disk_or_a_usage_error(text):
    parsed = {"gp3:500GiB": 500.0, " GP3 : 1TiB ": 1024.0, "gp3": None}
    assert {each: DISKS.parse(each) for each in parsed} == {
        each: ("gp3", gib) for each, gib in parsed.items()
    }
    try:
        disk_type, size = DISKS.parse(text)
    except UsageError:
        return
    assert disk_type in DISKS.types
    assert size is None or size > 0


def test_candidates_are_large_enough_and_priced_and_a_fitting_size_keeps_headroom():
    small, large = (
        DISKS.candidate_disks(load_catalog().instance("g4dn.xlarge"), gib, EAST) for gib in (90, 131)
    )
    assert small[0].rate.type == "instance_store"
    assert "instance_store" not in {disk.rate.type for disk in large}
    instance = make_cpu_instance()
    assert DISKS.candidate_disks(instance, 60000, EAST) == []
    assert DISKS.candidate_disks(instance, 10, "mars-north-1") == []
    # Whole GiB with 20 % to spare; st1 starts at 125 GiB; too much is refused.
    for size, needed in ((158, ("gp3", 131)), (16, ("gp3", 0.2, 8000)), (125, ("st1", 10))):
        assert DISKS.fitting_size(*needed) == size
    assert DISKS.fitting_size("instance_store", 0.1) == 1
    with pytest.raises(UsageError, match="16384GiB"):
        DISKS.fitting_size("st1", 20000)


CATALOG = load_catalog()
TABLES = table("disks")


def test_a_full_bucket_lasts_as_documented():
    def check(disk_type, size, rate, iops, seconds, source):
        assert TABLES["sources"][source]
        burst = DISKS.burst(DiskChoice(type=disk_type, size_gib=size))
        assert (burst.read_mib_per_second, burst.read_iops) == (pytest.approx(rate), pytest.approx(iops))
        assert burst.seconds == pytest.approx(seconds, rel=1e-3)
        assert burst.causes == (disk_type,)

    assert_each(check, TABLES["bursts"])
    for disk_type, size in (("gp2", 1000), ("gp2", 5334), ("gp3", 500), ("io2", 10), ("st1", 12800)):
        assert DISKS.burst(DiskChoice(type=disk_type, size_gib=size)) is None, "it lasts"


def attached(instance, *sold, **provisioned):
    disk = DISKS.attach(instance, order(*sold, **provisioned), EAST)
    return DISKS.with_burst(instance, disk)


def test_an_instance_lends_its_burst_for_half_an_hour_and_of_two_bursts_the_shorter_counts():
    """g5.xlarge: 87.5 MB/s for ever, 437.5 for 30 minutes; a plain gp3 never reads more than 125 MiB/s."""
    g5 = CATALOG.instance("g5.xlarge")
    burst = attached(g5, "gp3", 500, iops=8000, mib_per_second=1000).burst
    assert burst.read_mib_per_second == pytest.approx(437.5e6 / 2**20)
    assert (burst.seconds, burst.causes) == (1800, ("g5.xlarge",))
    assert attached(g5, "gp3", 500).burst.read_mib_per_second == 125
    # 16,000 IOPS for ever, of which the instance passes on 9,000 at first; no 3,000 from a bucket.
    instance = make_instance(ebs_baseline_iops=2000.0, ebs_burst_iops=9000.0)
    burst = attached(instance, "gp2", 5334).burst
    assert (burst.read_iops, burst.causes, burst.seconds) == (9000, (instance.name,), 1800)
    # gp2 could go on for 2,000 s, the instance for 1,800.
    lent = {"ebs_burst_mib_per_second": 400.0, "ebs_burst_iops": 9000.0}
    instance = make_instance(ebs_baseline_mib_per_second=50.0, ebs_baseline_iops=250.0, **lent)
    burst = attached(instance, "gp2", 100).burst
    assert (burst.causes, burst.seconds) == (("gp2", instance.name), 1800)
    burst = attached(make_instance(ebs_baseline_iops=1000.0), "gp2", 100).burst
    assert (burst.read_iops, burst.causes) == (1000, ("gp2",))
    assert burst.seconds == pytest.approx(5.4e6 / 700)


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
