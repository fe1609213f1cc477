"""The volumes that came with the instance: found, formatted when they are blank, mounted.

On Nitro instances an EBS volume is an NVMe device whose serial number is the volume's id; in what order
devices are numbered nobody promises. On Xen ones (p3, g3) the device has the name of the launch, with `xvd`
for `sd`. (EC2 User Guide, "Map Amazon EBS volumes to NVMe device names".)"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from advisor.errors import DataError, MeasuringError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused

# SSM parameter (SecureString) with a token of Hugging Face's; gated models are not loaded without.
HUB_TOKEN = "/advisor/hf-token"


def installed_engine(requirement: str, folder: Path) -> Path:
    """The folder of its programs; `DataError` with pip's last line where it cannot be had."""
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
    """The environment variables by which a process finds the engine; with the token for gated models,
    where the account has one that the instance may read."""
    environment = {"PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])}
    try:
        answer = aws.ask(region, "get_parameter", service="ssm", Name=HUB_TOKEN, WithDecryption=True)
    except Refused:
        return environment
    return environment | {"HF_TOKEN": str(answer["Parameter"]["Value"])}


MOUNTS = Path("/mnt/advisor")
ATTACH_SECONDS = 120.0
_POLL_SECONDS = 1.0
_BLANK = 2  # blkid's exit status where it finds nothing at all
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the system; its output is in the answer."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def volume_ids(aws: Aws, region: str, instance_id: str) -> dict[str, str]:
    """The id of each volume of the instance by its device name (`/dev/sdf`)."""
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
    """Mount a volume for each disk type; returns where, by type. `disks` has the type and `ids` the volume by
    device name. `MeasuringError` names the volume that does not show up, holds something already, or cannot
    be mounted."""
    for name, disk_type in disks.items():
        if name not in ids:
            raise MeasuringError(
                f"no volume is attached as {name}, where {disk_type} was asked", hint="launch again"
            )
        mount(_appearing(system, ids[name], name, sleep), mounts / disk_type, run)
    return {disk_type: mounts / disk_type for disk_type in disks.values()}


def device_of(system: Path, volume_id: str, name: str) -> Path | None:
    """The block device of a volume that was attached as `name`; None while there is none."""
    serial = volume_id.replace("-", "")
    for block in blocks(system):
        if text(block / "device/serial") == serial:
            return system / "dev" / block.name
    xen = system / "dev" / Path(name).name.replace("sd", "xvd", 1)
    return xen if xen.exists() else None


def blocks(system: Path) -> Iterator[Path]:
    """Whole disks: partitions have a file of that name."""
    for block in sorted((system / "sys/class/block").glob("nvme*")):
        if not (block / "partition").exists():
            yield block


def text(path: Path) -> str:
    """The content of a kernel's file; empty where it is missing."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _appearing(system: Path, volume_id: str, name: str, sleep: Callable[[float], None]) -> Path:
    """A volume may be attached a little after the instance has started."""
    for _ in range(int(ATTACH_SECONDS / _POLL_SECONDS)):
        if device := device_of(system, volume_id, name):
            return device
        sleep(_POLL_SECONDS)
    raise MeasuringError(f"volume {volume_id} ({name}) does not show up on this instance")


def mount(device: Path, mount_point: Path, run: Run) -> None:
    """Make a file system where the device is blank, and mount it; a second time finds it there.
    `MeasuringError` for a device with something else on it."""
    if run(["mountpoint", "--quiet", str(mount_point)]).returncode == 0:
        return
    result = run(["blkid", "--probe", "--output", "export", str(device)])
    if result.returncode == _BLANK:
        _must(run, ["mkfs.ext4", "-q", "-m", "0", str(device)])
    elif "TYPE=ext4" not in result.stdout.split():
        message = " ".join((result.stdout or result.stderr).split())
        raise MeasuringError(f"{device} holds something that is not ours ({message})", hint="left as it is")
    mount_point.mkdir(parents=True, exist_ok=True)
    # Without noinit_itable ext4 goes on writing its tables for minutes, beside the measurements.
    _must(run, ["mount", "-o", "noatime,noinit_itable", str(device), str(mount_point)])


def _must(run: Run, command: Sequence[str]) -> None:
    done = run(command)
    if done.returncode:
        message = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise MeasuringError(f"{' '.join(command)}: {message}")


# As NVMe devices of EC2 call themselves (EC2 User Guide, "Identify NVMe devices").
_MODEL = "Amazon EC2 NVMe Instance Storage"
# AWS's own images with the GPU's driver have made one file system of all such disks here.
_MOUNTED_BY_IMAGE = Path("opt/dlami/nvme")


def mount_local_disk(*, run: Run = run_command, mounts: Path = MOUNTS, system: Path = Path("/")) -> Path:
    """The mount point of the instance's own disk; of the first one, where there are several and the image
    has not joined them. `MeasuringError` where there is none."""
    made = system / _MOUNTED_BY_IMAGE
    if run(["mountpoint", "--quiet", str(made)]).returncode == 0:
        return made
    for block in blocks(system):
        if text(block / "device/model") == _MODEL:
            mount_point = mounts / "instance_store"
            mount(system / "dev" / block.name, mount_point, run)
            return mount_point
    raise MeasuringError("this instance has no NVMe disk of its own", hint="verify another disk")
