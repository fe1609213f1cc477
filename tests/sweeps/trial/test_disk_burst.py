"""Reads of a mounted disk that were lent: by the documented limits of volumes and instances."""

import pytest

from advisor.catalog import load_catalog
from advisor.domain import DiskRate
from advisor.models.performance.usable import why_not
from advisor.sweeps.quality.issues import quality_issues
from advisor.sweeps.trial.disk_burst import Reads, disk_burst, with_disk_burst
from tests.advisor.catalog.builders import order
from tests.sweeps.builders import TIME_BOX, measurement, resources, trial

CATALOG = load_catalog()
DISKS = CATALOG.disks


def burst_of(disk, size_gib, instance, mib_per_second, iops=None, seconds=10.0):
    reads = Reads(mib_per_second * seconds, seconds, iops and iops * seconds)
    volume = DISKS.rate(order(disk, 500)) if isinstance(disk, str) else disk
    where = CATALOG.instance(instance) if instance else None
    return disk_burst(DISKS, volume, size_gib, where, {"run": reads})


# Volumes: EC2 User Guide, general-purpose.md (gp2: 3 IOPS a GiB, burst of 3,000 below 1,000 GiB)
# and hdd-vols.md (st1: 40 MiB/s a TiB, burst of 250; sc1: 12 and 80). Instances:
# ebs-optimized.md (g4dn.xlarge 950 of 3,500 Mbps and 3,000 of 20,000 IOPS; g5.xlarge 700 Mbps).
@pytest.mark.parametrize(
    ("disk", "size_gib", "instance", "mib_per_second", "iops", "baseline", "is_lent"),
    [
        ("gp2", 100, None, 60, 240, (75.0, 300), False),
        ("gp2", 100, None, 60, 2_900, (75.0, 300), True),
        ("gp2", 100, None, 120, None, (75.0, 300), True),
        ("gp2", 500, None, 240, 1_600, (250.0, 1_500), True),
        ("st1", 1024, None, 39, None, (40.0, 40), False),
        ("st1", 1024, None, 240, None, (40.0, 40), True),
        ("sc1", 1024, None, 70, None, (12.0, 12), True),
        ("gp3", 500, "g4dn.xlarge", 110, 2_900, (113.2, 3_000), False),
        ("gp3", 500, "g4dn.xlarge", 124, 1_000, (113.2, 3_000), True),
        ("gp3", 500, "g5.xlarge", 124, 1_000, (83.4, 3_000), True),
        ("st1", 2048, "g5.xlarge", 90, None, (80.0, 80), True),
    ],
)
def test_what_lasts_and_what_was_lent(disk, size_gib, instance, mib_per_second, iops, baseline, is_lent):
    burst = burst_of(disk, size_gib, instance, mib_per_second, iops)
    rates = burst["baseline_mib_per_second"], burst["baseline_iops"]
    assert rates == pytest.approx(baseline, rel=1e-3)
    assert burst["above_baseline"] == (["run"] if is_lent else [])
    assert burst["lent_by"]


@pytest.mark.parametrize(
    ("disk", "size_gib", "instance"),
    [
        ("gp2", 1_000, None),  # its baseline is the burst's 3,000 IOPS
        ("gp3", 500, None),
        ("gp3", 500, "p5.48xlarge"),
        (DiskRate(type="far", read_mib_per_second=20.0), 500, "g4dn.xlarge"),
        (DiskRate(type="unlimited"), 500, None),
    ],
)
def test_disks_that_lend_nothing_have_no_burst(disk, size_gib, instance):
    assert burst_of(disk, size_gib, instance, 1_000.0) is None


def test_a_provisioned_gp3_has_the_rate_that_was_ordered_and_a_lent_row_is_weak_and_not_fitted():
    """g5.xlarge passes on 83 MiB/s for ever and 417 at first, whatever is ordered."""
    ordered = DISKS.rate(order("gp3", 500, iops=8000, mib_per_second=500))
    assert burst_of(ordered, 500, None, 490) is None
    assert burst_of(ordered, 500, "g5.xlarge", 300)["above_baseline"] == ["run"]
    burst = burst_of("gp2", 100, None, 120)
    lent = measurement(environment={"disk_burst": burst})
    codes = {issue.code: issue for issue in quality_issues(lent)}
    assert "gp2" in str(codes["disk_burst"].detail)
    assert "provisioned gp3" in str(codes["disk_burst"].advice)
    assert "burst" in why_not(lent, {"googlenet"})
    held = measurement(environment={"disk_burst": {**burst, "above_baseline": ["storage"]}})
    assert "disk_burst" in {issue.code for issue in quality_issues(held)}
    assert "burst" not in why_not(held, {"googlenet"})


@pytest.mark.parametrize("source", ["mounted", "throttled"])
def test_a_mounted_disk_is_looked_up_where_it_lies(source, tmp_path, monkeypatch):
    """The size is the device's: the one of the order may be another."""
    monkeypatch.setattr(
        "advisor.sweeps.trial.disk_burst.describe_disk", lambda _folder: {"device_gib": 100.0}
    )
    entry = trial(
        dataset_path=str(tmp_path),
        resources=resources(disk=DISKS.rate(order("gp2", 500))),
        plan={**TIME_BOX, "disk_source": source},
    )
    stage = {"seconds": 1.0, "mib_per_second": 128.0, "operations": 900}
    row = with_disk_burst(
        measurement(
            trial=entry,
            read_bytes=50 * 2**20,
            wall_seconds=2.0,
            environment={"read_operations": 400, "stage_runs": {"storage": stage}},
        )
    )
    if source == "throttled":
        assert "disk_burst" not in row.environment
    else:
        assert row.environment["disk_burst"]["baseline_iops"] == 300
        assert row.environment["disk_burst"]["above_baseline"] == ["storage"]
