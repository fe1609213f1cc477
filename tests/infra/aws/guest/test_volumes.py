"""Volumes are found by their id, formatted only when blank, and mounted once; the instance's own
NVMe disk is found by its model, or where the image has mounted it."""

import os
import subprocess
from pathlib import Path

import boto3
import pytest

from advisor.errors import MeasuringError
from advisor.infra.aws.guest.volumes import (
    device_of,
    mount_local_disk,
    mount_volumes,
    run_command,
    volume_ids,
)
from tests.infra.aws.reaping import an_instance, aws, moto_account

IDS = {"/dev/sdf": "vol-0aa", "/dev/sdg": "vol-0bb"}


@pytest.fixture
def system(tmp_path):
    """A Nitro instance: its root, and two volumes in another order than they were asked for."""
    for block, serial in (("nvme0n1", "vol0root"), ("nvme1n1", "vol0bb"), ("nvme2n1", "vol0aa")):
        device = tmp_path / "sys/class/block" / block / "device"
        device.mkdir(parents=True)
        (device / "serial").write_text(f"{serial}\n")
    partition = tmp_path / "sys/class/block/nvme0n1p1"
    (partition / "device").mkdir(parents=True)
    (partition / "partition").write_text("1\n")
    (partition / "device/serial").write_text("vol0aa\n")
    (tmp_path / "dev").mkdir()
    return tmp_path


class Programs:
    """What the programs of a system answer; `there` is what devices hold."""

    def __init__(self, there=None, mounted=(), refuses=""):
        self.there, self.mounted, self.refuses = there or {}, set(mounted), refuses
        self.asked = []

    def __call__(self, command):
        name, last = command[0], command[-1]
        self.asked.append(name)
        if name == self.refuses:
            return self._done(32, stderr="wrong fs type\nor bad option")
        if name == "mountpoint":
            return self._done(0 if last in self.mounted else 32)
        if name == "blkid":
            held = self.there.get(Path(last).name)
            return self._done(0, held) if held else self._done(2)
        if name == "mount":
            self.mounted.add(last)
        return self._done(0)

    @staticmethod
    def _done(code, stdout="", stderr=""):
        return subprocess.CompletedProcess([], code, stdout, stderr)


def mounted(system, run, disks=None, ids=None):
    return mount_volumes(
        disks or {"/dev/sdf": "gp3", "/dev/sdg": "st1"},
        IDS if ids is None else ids,
        sleep=lambda _: None,
        run=run,
        mounts=system / "mnt",
        system=system,
    )


def test_a_device_is_known_by_its_serial_number_and_formatted_and_mounted_once_if_blank(system):
    assert device_of(system, "vol-0aa", "/dev/sdf") == system / "dev/nvme2n1"
    assert device_of(system, "vol-0bb", "/dev/sdg") == system / "dev/nvme1n1"
    assert device_of(system, "vol-0cc", "/dev/sdh") is None
    (system / "dev/xvdh").touch()  # on Xen it has the name of the launch
    assert device_of(system, "vol-0cc", "/dev/sdh") == system / "dev/xvdh"
    # Our own file system is mounted as it is.
    run = Programs()
    places = mounted(system, run)
    assert places == {"gp3": system / "mnt/gp3", "st1": system / "mnt/st1"}
    assert run.asked.count("mkfs.ext4") == 2
    assert run.mounted == {str(spot) for spot in places.values()}
    run.asked.clear()
    assert mounted(system, run) == places
    assert set(run.asked) == {"mountpoint"}
    ours = Programs({"nvme2n1": "TYPE=ext4\n"})
    mounted(system, ours, {"/dev/sdf": "gp3"})
    assert "mkfs.ext4" not in ours.asked


@pytest.mark.parametrize("held", ["TYPE=xfs\n", "PTTYPE=gpt\n"])
def test_what_holds_something_else_is_never_formatted(system, held):
    run = Programs({"nvme2n1": held})
    with pytest.raises(MeasuringError, match="nvme2n1 holds something"):
        mounted(system, run)
    assert "mkfs.ext4" not in run.asked


GP3, LOST = {"/dev/sdf": "gp3"}, {"/dev/sdf": "vol-0cc"}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"run": Programs(), "ids": {"/dev/sdf": "vol-0aa"}}, "/dev/sdg, where st1"),  # was not attached
        ({"run": Programs(), "disks": GP3, "ids": LOST}, "vol-0cc"),  # does not show up
        ({"run": Programs(refuses="mount")}, "wrong fs type or bad option"),
    ],
)
def test_a_volume_that_is_not_there_or_cannot_be_mounted_is_told_in_one_line(system, wanted, words):
    with pytest.raises(MeasuringError, match=words):
        mounted(system, **wanted)


def test_the_volumes_of_an_instance_are_asked_of_ec2(monkeypatch):
    with moto_account(monkeypatch):
        blocks = [{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10, "VolumeType": "gp3"}}]
        name = an_instance("us-east-1", BlockDeviceMappings=blocks)
        an_instance("us-east-1", BlockDeviceMappings=blocks)
        result = volume_ids(aws(), "us-east-1", name)
        expected = boto3.client("ec2", region_name="us-east-1").describe_volumes(
            Filters=[{"Name": "attachment.instance-id", "Values": [name]}]
        )["Volumes"]
        assert result["/dev/sdf"] in {line["VolumeId"] for line in expected}


def a_machine(root, *models):
    for number, model in enumerate(models):
        device = root / f"sys/class/block/nvme{number}n1/device"
        device.mkdir(parents=True)
        (device / "model").write_text(f"{model}              \n")
    return root


def test_the_first_disk_of_its_own_is_mounted_and_no_volume(tmp_path):
    """Or what the image has mounted already; an instance without one says so."""
    volume, own = "Amazon Elastic Block Store", "Amazon EC2 NVMe Instance Storage"
    system = a_machine(tmp_path, volume, own, own)
    programs = Programs()
    path = mount_local_disk(run=programs, mounts=tmp_path / "mnt", system=system)
    assert path == tmp_path / "mnt/instance_store"
    assert programs.mounted == {str(path)}
    assert "mkfs.ext4" in programs.asked
    made = tmp_path / "opt/dlami/nvme"
    taken = Programs(mounted=[str(made)])
    assert mount_local_disk(run=taken, mounts=tmp_path / "mnt", system=tmp_path) == made
    assert taken.asked == ["mountpoint"]
    with pytest.raises(MeasuringError, match="no NVMe disk of its own"):
        mount_local_disk(run=Programs(), system=a_machine(tmp_path / "other", volume))


@pytest.mark.root
def test_a_real_volume_is_formatted_mounted_and_written_to(system, tmp_path):
    """A loop device stands for the NVMe device; the programs are the system's own."""
    if os.geteuid() != 0:
        pytest.skip("needs root for loop devices")
    image = tmp_path / "volume"
    with image.open("wb") as file:
        file.truncate(64 * 2**20)
    made = run_command(["losetup", "--find", "--show", str(image)])
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    loop = made.stdout.strip()
    (system / "dev/nvme2n1").symlink_to(loop)
    try:
        path = mounted(system, run_command, {"/dev/sdf": "gp3"})["gp3"]
        (path / "written").write_text("yes")
        assert path.stat().st_dev != tmp_path.stat().st_dev
        assert mounted(system, run_command, {"/dev/sdf": "gp3"}) == {"gp3": path}
    finally:
        run_command(["umount", str(system / "mnt/gp3")])
        run_command(["losetup", "--detach", loop])
