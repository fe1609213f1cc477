import shutil

import pytest

from advisor.domain import DiskRate
from advisor.errors import DataError
from advisor.sweeps.datasets.places import copy_to_mount, dataset_on_mount

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


def test_the_data_set_is_copied_to_the_mount_once(images, mount):
    place = copied(images, mount)
    assert place == dataset_on_mount(mount, str(images))
    inode = (place / "a.jpg").stat().st_ino
    assert copied(images, mount) == place
    assert (place / "a.jpg").stat().st_ino == inode


def test_a_half_made_copy_is_made_again_and_data_on_the_mount_stay(images, mount):
    place = copied(images, mount)
    (place / "b.jpg").unlink()
    assert len(list(copied(images, mount).iterdir())) == 2
    assert dataset_on_mount(images.parent, str(images)) == images


def test_a_mount_that_cannot_be_written_is_told(images, tmp_path):
    file = tmp_path / "no-folder"
    file.write_text("")
    with pytest.raises(DataError, match="--data"):
        copied(images, file)
