"""Data on disks: copied to a mount, slowed as another disk, and in or out of the page cache."""

import os
import shutil
import time

import pytest

from advisor.domain import DiskRate
from advisor.errors import DataError
from advisor.sweeps.datasets import source as slowed
from advisor.sweeps.datasets.opening import copy_to_mount, dataset_on_mount, open_dataset
from advisor.sweeps.datasets.source import LatencyInjected
from advisor.sweeps.worker.inputs import cached_share, evict, fill

GP3 = DiskRate(type="gp3", read_mib_per_second=125.0, read_iops=3000.0)
SLOW = DiskRate(type="slow", read_mib_per_second=20.0)


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"1")
    (folder / "b.jpg").write_bytes(b"2")
    return folder


@pytest.fixture
def mount(tmp_path):
    folder = tmp_path / "mnt"
    folder.mkdir()
    return folder


def copied(data, mount):
    return copy_to_mount(data, dataset_on_mount(mount, str(data)), 2)


def test_two_data_sets_of_one_name_are_not_taken_for_each_other(images, mount, tmp_path):
    other = tmp_path / "other" / images.name
    shutil.copytree(images, other)
    (other / "a.jpg").write_bytes(b"other")
    assert (copied(images, mount) / "a.jpg").read_bytes() == b"1"
    assert (copied(other, mount) / "a.jpg").read_bytes() == b"other"
    assert dataset_on_mount(mount, "s3://a/set") != dataset_on_mount(mount, "s3://b/set")


def test_a_data_set_is_copied_to_the_mount_once_and_again_where_half_of_it_is_missing(
    images, mount, tmp_path
):
    path = copied(images, mount)
    assert path == dataset_on_mount(mount, str(images))
    inode = (path / "a.jpg").stat().st_ino
    assert copied(images, mount) == path
    assert (path / "a.jpg").stat().st_ino == inode
    path = copied(images, mount)
    (path / "b.jpg").unlink()
    assert len(list(copied(images, mount).iterdir())) == 2
    assert dataset_on_mount(images.parent, str(images)) == images
    file = tmp_path / "no-folder"
    file.write_text("")
    with pytest.raises(DataError, match="name another place"):
        copied(images, file)


# The latency of another disk type: for what comes from the disk, not for what is cached.

SECONDS = 0.02


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{index}.jpg" for index in range(4)]
    for path in paths:
        path.write_bytes(os.urandom(1 << 16))
    os.sync()
    return paths


@pytest.fixture
def slept(monkeypatch):
    seconds = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def test_a_read_that_the_disk_answered_waits_for_what_is_left(files, tmp_path, slept, monkeypatch):
    counts = iter([0, 8, 8, 8])
    monkeypatch.setattr(slowed, "_blocks_read", lambda: next(counts))
    source = LatencyInjected(open_dataset(tmp_path), SECONDS)
    assert source.read(0).content == files[0].read_bytes()
    source.read(1)
    assert len(slept) == 1
    assert 0 < slept[0] <= SECONDS


def test_the_kernel_tells_cached_reads_from_those_of_the_disk(files, tmp_path, slept):
    source = LatencyInjected(open_dataset(tmp_path), SECONDS)
    evict(files)
    if cached_share(files) != 0:
        pytest.skip("these files do not leave the page cache (tmpfs)")
    source.read(2)
    source.read(2)
    assert len(slept) == 1


def test_filling_stops_at_the_limit_and_inside_a_file_that_is_the_whole_data_set(files, tmp_path):
    assert fill(files, limit_bytes=100_000) == 2 << 16
    (tmp_path / "large").write_bytes(bytes(4 << 20))
    assert fill([tmp_path / "large"], limit_bytes=1.5 * 2**20) == 2 << 20


def test_evicted_files_are_gone_and_read_files_are_there(files):
    evict(files)
    if cached_share(files) is None:
        pytest.skip("this kernel cannot tell what is cached (cachestat, Linux 6.5)")
    if cached_share(files):
        pytest.skip("this file system keeps its pages (tmpfs)")
    fill(files[:2], limit_bytes=1e9)
    assert cached_share(files) == pytest.approx(0.5)
