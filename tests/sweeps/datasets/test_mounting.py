import pytest

from advisor.domain import DiskRate
from advisor.errors import DataError
from sweeps.datasets.places import copy_to_mount, dataset_on_mount

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


def test_the_data_set_is_copied_to_the_mount_once(images, mount):
    place = copy_to_mount(images, mount, 2)
    assert place == dataset_on_mount(mount, images)
    copied = (place / "a.jpg").stat().st_ino
    assert copy_to_mount(images, mount, 2) == place
    assert (place / "a.jpg").stat().st_ino == copied


def test_a_half_made_copy_is_made_again_and_data_on_the_mount_stay(images, mount):
    place = copy_to_mount(images, mount, 2)
    (place / "b.jpg").unlink()
    assert len(list(copy_to_mount(images, mount, 2).iterdir())) == 2
    assert dataset_on_mount(images.parent, images) == images


def test_a_mount_that_cannot_be_written_is_told(images, tmp_path):
    file = tmp_path / "no-folder"
    file.write_text("")
    with pytest.raises(DataError, match="--data"):
        copy_to_mount(images, file, 2)
