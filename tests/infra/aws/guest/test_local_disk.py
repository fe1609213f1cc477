"""The instance's own NVMe disk is found by its model, or where the image has mounted it."""

from __future__ import annotations

import pytest

from advisor.errors import MeasuringError
from advisor.infra.aws.guest.volumes import mount_local_disk
from tests.infra.aws.guest.test_volumes import Programs


def a_machine(root, *models):
    for number, model in enumerate(models):
        device = root / f"sys/class/block/nvme{number}n1/device"
        device.mkdir(parents=True)
        (device / "model").write_text(f"{model}              \n")
    return root


def test_the_first_disk_of_its_own_is_mounted_and_no_volume(tmp_path):
    system = a_machine(
        tmp_path,
        "Amazon Elastic Block Store",
        "Amazon EC2 NVMe Instance Storage",
        "Amazon EC2 NVMe Instance Storage",
    )
    programs = Programs()
    place = mount_local_disk(run=programs, mounts=tmp_path / "mnt", system=system)
    assert place == tmp_path / "mnt/instance_store"
    assert programs.mounted == {str(place)}
    assert "mkfs.ext4" in programs.asked


def test_what_the_image_has_mounted_already_is_taken(tmp_path):
    made = tmp_path / "opt/dlami/nvme"
    programs = Programs(mounted=[str(made)])
    assert mount_local_disk(run=programs, mounts=tmp_path / "mnt", system=tmp_path) == made
    assert programs.asked == ["mountpoint"]


def test_an_instance_without_one_says_so(tmp_path):
    system = a_machine(tmp_path, "Amazon Elastic Block Store")
    with pytest.raises(MeasuringError, match="no NVMe disk of its own"):
        mount_local_disk(run=Programs(), mounts=tmp_path / "mnt", system=system)
