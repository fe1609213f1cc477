"""What several exports say alike: the header, the machine image, the data disk."""

from __future__ import annotations

from typing import Any

from advisor.domain import Candidate, Market
from advisor.render.blocks import rate_unit
from advisor.render.text import disk_text, lower_name
from advisor.units import floor_rate, format_usd

DATA_DEVICE = "/dev/sdf"
# SSM parameters with the newest image of a region: AWS Deep Learning AMIs, and Canonical's.
_GPU_IMAGE = (
    "/aws/service/deeplearning/ami/{machine}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
_CPU_IMAGE = (
    "/aws/service/canonical/ubuntu/server/22.04/stable/current/{machine}/hvm/ebs-gp2/ami-id"
)


def header(candidate: Candidate, mark: str = "#") -> str:
    """Comment lines: what this is for, and at what price and rate."""
    spec, workload, prediction = candidate.spec, candidate.workload, candidate.prediction
    lines = [
        f"{workload.network} {workload.task}, batch {workload.batch_size}, {workload.precision}: "
        f"{lower_name(prediction.confidence)} {floor_rate(prediction.lower):,g} "
        f"{rate_unit(workload.dataset)} ({prediction.provenance})",
        f"{spec.name} + {disk_text(spec.disk)}, "
        f"{format_usd(spec.total_usd_per_hour)}/h ({spec.offer.price.as_of})",
    ]
    if spec.disk.price is None:
        lines.append("The data set belongs on the instance's own disk: it is empty at first.")
    return "".join(f"{mark} {line}\n" for line in lines)


def is_spot(candidate: Candidate) -> bool:
    """Whether the offer can be taken away."""
    return candidate.spec.offer.market is Market.SPOT


def aws_image_parameter(candidate: Candidate) -> str:
    """The SSM parameter of an image that runs there: with the driver where there is a GPU."""
    instance = candidate.spec.offer.instance
    arm = instance.cpu.architecture == "arm64"
    if instance.gpu_name:
        return _GPU_IMAGE.format(machine="arm64" if arm else "x86_64")
    return _CPU_IMAGE.format(machine="arm64" if arm else "amd64")


def aws_volume(candidate: Candidate) -> dict[str, Any] | None:
    """The data disk in EC2's words (`EbsBlockDevice`); None where the instance has its own."""
    disk = candidate.spec.disk
    if disk.price is None:
        return None
    choice = disk.choice
    volume = {
        "VolumeType": choice.type,
        "VolumeSize": round(disk.size_gib),
        "Iops": round(choice.iops) if choice.iops else _required_iops(candidate),
        "Throughput": round(choice.mib_per_second) if choice.mib_per_second else None,
        "DeleteOnTermination": True,
    }
    return {name: value for name, value in volume.items() if value is not None}


def _required_iops(candidate: Candidate) -> int | None:
    """io1 and io2 cannot be bought without a number."""
    disk = candidate.spec.disk
    if disk.choice.type not in ("io1", "io2"):
        return None
    return round(disk.rate.read_iops or 0) or None
