"""Finds the instance's volumes, formats blank ones, and mounts them; also installs serving engines.

On Nitro instances an EBS volume is an NVMe device whose serial number is the volume's id; the order of device
numbers is not guaranteed. On Xen instances (p3, g3) the device has the name from the launch, with `xvd` for
`sd`. (EC2 User Guide, "Map Amazon EBS volumes to NVMe device names".)"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from advisor.errors import DataError, MeasuringError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused

# SSM parameter (SecureString) with a Hugging Face token, which gated models need.
HUB_TOKEN = "/advisor/hf-token"


def installed_engine(requirement: str, folder: Path) -> Path:
    """Install an engine; returns the folder of its programs. `DataError` has pip's last line."""
    environment = folder / "engine"
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement]
    for command in ([sys.executable, "-m", "venv", str(environment)], pip):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            lines = (ended.stderr or ended.stdout).strip().splitlines()
            why = lines[-1] if lines else "it told nothing"
            raise DataError(f"{requirement} cannot be installed: {why}")
    return environment / "bin"


def engine_environment(programs: Path, aws: Aws, region: str) -> dict[str, str]:
    """The environment variables by which a process finds the engine; with the token for gated models, if the
    instance may read it."""
    environment = {"PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])}
    try:
        answer = aws.ask(region, "get_parameter", service="ssm", Name=HUB_TOKEN, WithDecryption=True)
    except Refused:
        return environment
    return environment | {"HF_TOKEN": str(answer["Parameter"]["Value"])}


MOUNTS = Path("/mnt/advisor")
ATTACH_SECONDS = 120.0
_POLL_SECONDS = 1.0
_BLANK = 2  # blkid's exit status for a blank device
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a system program, and capture its output."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def volume_ids(aws: Aws, region: str, instance_id: str) -> dict[str, str]:
    """The ids of the instance's volumes by device name (`/dev/sdf`)."""
    filters = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
    return {
        attached["Device"]: volume["VolumeId"]
        for volume in aws.pages(region, "describe_volumes", "Volumes", Filters=filters)
        for attached in volume["Attachments"]
        if attached["InstanceId"] == instance_id
    }


def mount_volumes(
    disks: Mapping[str, str],
    ids: Mapping[str, str],
    *,
    sleep: Callable[[float], None],
    run: Run = run_command,
    mounts: Path = MOUNTS,
    system: Path = Path("/"),
) -> dict[str, Path]:
    """Mount the volumes; returns the mount point of each disk type. `disks` has types and `ids` volume ids,
    both by device name. `MeasuringError` names a volume that does not appear, holds other data, or cannot be
    mounted."""
    for name, disk_type in disks.items():
        if name not in ids:
            raise MeasuringError(
                f"no volume is attached as {name}, where {disk_type} was asked", hint="launch again"
            )
        mount(_attached_device(system, ids[name], name, sleep), mounts / disk_type, run)
    return {disk_type: mounts / disk_type for disk_type in disks.values()}


def device_of(system: Path, volume_id: str, name: str) -> Path | None:
    """The block device of a volume attached as `name`; None until it appears."""
    serial = volume_id.replace("-", "")
    for block in blocks(system):
        if text(block / "device/serial") == serial:
            return system / "dev" / block.name
    xen = system / "dev" / Path(name).name.replace("sd", "xvd", 1)
    return xen if xen.exists() else None


def blocks(system: Path) -> Iterator[Path]:
    """The NVMe disks in /sys, without their partitions."""
    for block in sorted((system / "sys/class/block").glob("nvme*")):
        if not (block / "partition").exists():
            yield block


def text(path: Path) -> str:
    """The content of a file in /sys; empty if it is missing."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _attached_device(system: Path, volume_id: str, name: str, sleep: Callable[[float], None]) -> Path:
    """The device of a volume; waits, since a volume may be attached after the instance has started."""
    for _ in range(int(ATTACH_SECONDS / _POLL_SECONDS)):
        if device := device_of(system, volume_id, name):
            return device
        sleep(_POLL_SECONDS)
    raise MeasuringError(f"volume {volume_id} ({name}) does not show up on this instance")


def mount(device: Path, mount_point: Path, run: Run) -> None:
    """Mount a device, with a new file system if it is blank; does nothing if it is mounted.
    `MeasuringError` for a device with other data."""
    if run(["mountpoint", "--quiet", str(mount_point)]).returncode == 0:
        return
    result = run(["blkid", "--probe", "--output", "export", str(device)])
    if result.returncode == _BLANK:
        _run_checked(run, ["mkfs.ext4", "-q", "-m", "0", str(device)])
    elif "TYPE=ext4" not in result.stdout.split():
        message = " ".join((result.stdout or result.stderr).split())
        raise MeasuringError(f"{device} holds something that is not ours ({message})", hint="left as it is")
    mount_point.mkdir(parents=True, exist_ok=True)
    # Without noinit_itable, ext4 would write its tables for minutes, during the measurements.
    _run_checked(run, ["mount", "-o", "noatime,noinit_itable", str(device), str(mount_point)])


def _run_checked(run: Run, command: Sequence[str]) -> None:
    done = run(command)
    if done.returncode:
        message = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise MeasuringError(f"{' '.join(command)}: {message}")


# Model name of EC2's local NVMe disks (EC2 User Guide, "Identify NVMe devices").
_MODEL = "Amazon EC2 NVMe Instance Storage"
# AWS's images with the GPU driver join all local disks into one file system, mounted here.
_MOUNTED_BY_IMAGE = Path("opt/dlami/nvme")


def mount_local_disk(*, run: Run = run_command, mounts: Path = MOUNTS, system: Path = Path("/")) -> Path:
    """The mount point of the instance's local disk (the first one, unless the image has joined them).
    `MeasuringError` if there is none."""
    made = system / _MOUNTED_BY_IMAGE
    if run(["mountpoint", "--quiet", str(made)]).returncode == 0:
        return made
    for block in blocks(system):
        if text(block / "device/model") == _MODEL:
            mount_point = mounts / "instance_store"
            mount(system / "dev" / block.name, mount_point, run)
            return mount_point
    raise MeasuringError("this instance has no NVMe disk of its own", hint="verify another disk")
