"""What a disk reads at first, and for how long: the documented buckets, alone and on instances."""

import pytest

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice
from tests.advisor.catalog.builders import make_instance, order
from tests.rows import assert_each, table

CATALOG = load_catalog()
DISKS = CATALOG.disks
EAST = "us-east-1"
TABLES = table("disks")


def test_a_full_bucket_lasts_as_documented():
    def check(disk_type, size, rate, iops, seconds, source):
        assert TABLES["sources"][source]
        burst = DISKS.burst(DiskChoice(type=disk_type, size_gib=size))
        assert (burst.read_mib_per_second, burst.read_iops) == (pytest.approx(rate), pytest.approx(iops))
        assert burst.seconds == pytest.approx(seconds, rel=1e-3)
        assert burst.causes == (disk_type,)

    assert_each(check, TABLES["bursts"])


@pytest.mark.parametrize(
    ("disk_type", "size"), [("gp2", 1000), ("gp2", 5334), ("gp3", 500), ("io2", 10), ("st1", 12800)]
)
def test_what_lasts_has_no_burst(disk_type, size):
    """Baseline at or above the burst, and types that never burst."""
    assert DISKS.burst(DiskChoice(type=disk_type, size_gib=size)) is None


def test_a_bucket_holds_one_scan():
    """hdd-vols.md: 1 TiB of st1 is scanned in 1.17 h with burst; a full bucket lasts so long."""
    burst = DISKS.burst(DiskChoice(type="st1", size_gib=1024))
    assert burst.seconds >= 1.16 * 3600


def attached(instance, *sold, **provisioned):
    disk = DISKS.attach(instance, order(*sold, **provisioned), EAST)
    return DISKS.with_burst(instance, disk)


def test_a_small_instance_lends_its_burst_for_half_an_hour():
    """g5.xlarge: 87.5 MB/s for ever, 437.5 for 30 minutes; a fast gp3 shows it."""
    g5 = CATALOG.instance("g5.xlarge")
    burst = attached(g5, "gp3", 500, iops=8000, mib_per_second=1000).burst
    assert burst.read_mib_per_second == pytest.approx(437.5e6 / 2**20)
    assert (burst.seconds, burst.causes) == (1800, ("g5.xlarge",))


def test_the_volume_holds_the_burst_of_the_instance():
    """A plain gp3 never reads more than its 125 MiB/s."""
    burst = attached(CATALOG.instance("g5.xlarge"), "gp3", 500).burst
    assert burst.read_mib_per_second == 125


def test_a_burst_of_both_ends_with_the_shorter():
    """gp2 could go on for 2,000 s, the instance for 1,800."""
    instance = make_instance(
        ebs_baseline_mib_per_second=50.0,
        ebs_baseline_iops=250.0,
        ebs_burst_mib_per_second=400.0,
        ebs_burst_iops=9000.0,
    )
    burst = attached(instance, "gp2", 100).burst
    assert burst.causes == ("gp2", instance.name)
    assert burst.seconds == 1800


def test_an_instance_without_burst_slows_the_spending():
    """Credits last longer where the instance passes on fewer IOPS."""
    instance = make_instance(ebs_baseline_mib_per_second=100.0, ebs_baseline_iops=1000.0)
    burst = attached(instance, "gp2", 100).burst
    assert (burst.read_iops, burst.causes) == (1000, ("gp2",))
    assert burst.seconds == pytest.approx(5.4e6 / 700)


def test_a_large_instance_and_a_steady_volume_lend_nothing():
    assert attached(CATALOG.instance("p5.48xlarge"), "gp3", 500).burst is None
    local = DISKS.attach(CATALOG.instance("g4dn.xlarge"), order("instance_store", 100), EAST)
    assert DISKS.with_burst(CATALOG.instance("g4dn.xlarge"), local).burst is None
