"""Disks that lend, go away, fail or fill up while a sweep runs: real ones, made of files."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.domain import CacheState, DiskRate, Status
from advisor.errors import DataError
from advisor.models.performance.usable import why_not
from advisor.store.measurements import SqlStore
from advisor.sweeps.datasets.making import ensure_dataset, write_samples
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.quality.issues import quality_issues
from advisor.sweeps.run.runner import ProcessExecutor, run_sweep
from advisor.sweeps.trial.disk_burst import disk_burst, with_disk_burst
from advisor.sweeps.trial.trial_process import measure_trial
from tests.advisor.catalog.builders import order
from tests.sweeps.builders import TIME_BOX, measurement, resources, trial, trial_on

MAY_MOUNT = os.geteuid() == 0 and shutil.which("losetup") and Path("/dev/loop-control").exists()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.skipif(not MAY_MOUNT, reason="needs root and loop devices"),
]
SAMPLES = 24


def run(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


class Disk:
    """An ext4 file system in a file, mounted."""

    def __init__(self, folder, mib):
        self.image, self.mount = folder / "disk.img", folder / "mnt"
        self.mount.mkdir()
        self.image.write_bytes(b"")
        os.truncate(self.image, mib * 2**20)
        run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", self.image)
        run("mount", "-o", "loop,noatime", self.image, self.mount)

    def fail(self):
        """Reads beyond the first 2 MiB give EIO from now on."""
        os.sync()
        os.truncate(self.image, 2 * 2**20)


@pytest.fixture
def disk(tmp_path):
    try:
        made = Disk(tmp_path, mib=24)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop mount here: {error.stderr.decode()[:200]}")
    yield made
    subprocess.run(["umount", "-l", str(made.mount)], capture_output=True)


@pytest.fixture
def tiny(tmp_path):
    """A disk of 240 KiB."""
    path = tmp_path / "tiny"
    path.mkdir()
    try:
        run("mount", "-t", "tmpfs", "-o", "size=240k", "tmpfs", path)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs here: {error.stderr.decode()[:200]}")
    yield path
    run("umount", "-l", path)


def photographs(disk):
    folder = disk.mount / "photographs"
    folder.mkdir()
    write_samples(folder, range(SAMPLES), seed=0)
    os.sync()
    return folder


def on(folder, profile, cache=CacheState.WARM, **plan):
    return trial_on(folder, dataset=profile, cache=cache, plan={**TIME_BOX, **plan})


def swept(trials):
    store = SqlStore("sqlite://")
    executor = ProcessExecutor(lambda entry: measure_trial(entry, repeats=0))
    run_sweep(trials, executor, store)
    executor.close()
    rows = {row.trial.trial_id: row for row in store.all()}
    return [rows[entry.trial_id] for entry in trials]


def test_a_lost_mount_fails_its_trials_by_name_and_the_others_go_on(disk, tmp_path):
    """Lost while the first trial reads; the second one does not find it any more."""
    mounted, elsewhere = photographs(disk), tmp_path / "elsewhere"
    shutil.copytree(mounted, elsewhere)
    profile = profile_folder(mounted)
    trials = [on(mounted, profile, iterations=100_000), on(mounted, profile, CacheState.COLD)]
    trials.append(on(elsewhere, profile))
    late = subprocess.Popen(["sh", "-c", f"sleep 6; umount -l {disk.mount}"])
    *lost, other = swept(trials)
    late.wait()
    assert other.status in (Status.OK, Status.CONTAMINATED)
    for row in lost:
        assert row.status is Status.FAILED
        assert f"'{mounted}' cannot be reached" in row.reason


def test_a_disk_that_fails_is_told_apart_from_a_broken_image(disk):
    folder = photographs(disk)
    profile = profile_folder(folder)
    disk.fail()
    (failed,) = swept([on(folder, profile, CacheState.COLD)])
    assert failed.status is Status.FAILED
    assert str(folder) in failed.reason
    assert "fails" in failed.reason


def test_a_data_set_that_does_not_fit_leaves_nothing_behind(tiny):
    with pytest.raises(DataError, match="free some space"):
        ensure_dataset(8, tiny / "set")
    assert list(tiny.iterdir()) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_worker_that_the_kernel_holds_does_not_hold_the_sweep(monkeypatch):
    """As in a read from a disk that never answers: SIGKILL does nothing before it is thawed."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if not os.access(freezer / "cgroup.procs", os.W_OK):
        pytest.skip("needs a freezer that holds killed processes (cgroup version 1)")
    from advisor.sweeps.trial import child

    monkeypatch.setattr(child, "_PATIENCE_SECONDS", 0.5)
    group = freezer / f"advisor-test-{os.getpid()}"
    group.mkdir()
    try:
        with child.started_worker(("sleep", "600")) as worker:
            (group / "cgroup.procs").write_text(str(worker.pid))
            (group / "freezer.state").write_text("FROZEN")
            begun = time.monotonic()
        assert time.monotonic() - begun < 60
    finally:
        (group / "freezer.state").write_text("THAWED")
        os.waitpid(worker.pid, 0)
        while (group / "cgroup.procs").read_text():
            time.sleep(0.01)
        group.rmdir()


CATALOG = load_catalog()
DISKS = CATALOG.disks


def burst_of(disk, size_gib, instance, mib_per_second, iops=None, seconds=10.0):
    reads = (mib_per_second * seconds, seconds, iops and iops * seconds)
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
