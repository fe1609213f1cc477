"""Disks that go away, fail or fill up while a sweep runs: real ones, made of files."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from advisor.domain import CacheState, Status
from advisor.errors import DataError
from advisor.store.measurements import SqlStore
from advisor.sweeps.datasets.making import ensure_dataset, write_samples
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.run.runner import ProcessExecutor, run_sweep
from advisor.sweeps.trial.trial_process import measure_trial
from tests.sweeps.builders import TIME_BOX, trial_on

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
    trials = [
        on(mounted, profile, iterations=100_000),
        on(mounted, profile, CacheState.COLD),
        on(elsewhere, profile),
    ]
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
