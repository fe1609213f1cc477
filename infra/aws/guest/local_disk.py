"""The NVMe disk of the instance itself, where a type has one."""

from __future__ import annotations

from pathlib import Path

from advisor.errors import MeasuringError
from infra.aws.guest.volumes import MOUNTS, Run, blocks, mount, run_command, text

# As NVMe devices of EC2 call themselves (EC2 User Guide, "Identify NVMe devices").
_MODEL = "Amazon EC2 NVMe Instance Storage"
# AWS's own images with the GPU's driver have made one file system of all such disks here.
_MOUNTED_BY_IMAGE = Path("opt/dlami/nvme")


def mount_local_disk(
    *, run: Run = run_command, mounts: Path = MOUNTS, system: Path = Path("/")
) -> Path:
    """Where the instance's own disk is mounted; the first one, where there are several and the
    image has not joined them. `MeasuringError` where there is none."""
    made = system / _MOUNTED_BY_IMAGE
    if run(["mountpoint", "--quiet", str(made)]).returncode == 0:
        return made
    for block in blocks(system):
        if text(block / "device/model") == _MODEL:
            place = mounts / "instance_store"
            mount(system / "dev" / block.name, place, run)
            return place
    raise MeasuringError("this instance has no NVMe disk of its own", hint="verify another disk")
