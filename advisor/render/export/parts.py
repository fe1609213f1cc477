"""Parts that several exports share: the header, the machine image and the data disk."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.domain import Candidate, Market, NodeNetwork, Spec
from advisor.messages import floor_rate, format_usd
from advisor.naming import setting_text
from advisor.render.borderline import modest
from advisor.render.records import rate_unit
from advisor.render.text import disk_text, lower_name

DATA_DEVICE = "/dev/sdf"
# SSM parameters with a region's newest image: AWS Deep Learning AMIs, and Canonical's.
_GPU_IMAGE = "/aws/service/deeplearning/ami/{machine}/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
_CPU_IMAGE = "/aws/service/canonical/ubuntu/server/22.04/stable/current/{machine}/hvm/ebs-gp2/ami-id"


class Start(NamedTuple):
    """A spec to start: lines `about` it for the header, and the shell lines to `run` there (none: the user
    adds them). `network` connects instances that train together."""

    spec: Spec
    about: tuple[str, ...]
    run: tuple[str, ...] = ()
    network: NodeNetwork | None = None


def start_of(candidate: Candidate) -> Start:
    """Return how to start a network's spec; the user adds the code that runs there."""
    workload, prediction = candidate.workload, candidate.prediction
    setting = setting_text(workload.precision, workload.memory_format)
    return Start(
        candidate.spec,
        (
            f"{workload.network} {workload.task}, batch {workload.batch_size}, "
            f"{setting}: {lower_name(prediction.confidence)} "
            f"{floor_rate(prediction.lower):,g} {rate_unit(workload.dataset)} "
            f"({prediction.provenance}){chance_text(candidate.probability)}",
        ),
        network=candidate.node_network,
    )


def chance_text(probability: float | None) -> str:
    """Return ', 76 % sure to meet the target and limits ..', or '' if no chance is known."""
    if probability is None:
        return ""
    return f", {100 * modest(probability):.0f} % sure to meet the target and limits that were asked for"


def header(start: Start) -> str:
    """Return comment lines: what the file is for, and at what price and rate."""
    spec = start.spec
    lines = [
        *start.about,
        f"{spec.name} + {disk_text(spec.disk)}, "
        f"{format_usd(spec.total_usd_per_hour)}/h ({spec.offer.price.as_of})",
    ]
    if spec.disk.price is None:
        held = "The model" if start.run else "The data set"
        lines.append(f"{held} belongs on the instance's own disk: it is empty at first.")
    if start.network:
        lines.append(f"The rate counts on {start.network.gbit_per_second:g} Gbit/s between nodes.")
        if start.network.takes_several_cards:
            lines.append("That takes EFA on all network cards, which nothing here sets up.")
    return "".join(f"# {line}\n" for line in lines)


PLACEMENT_GROUP = "advised"
NO_PLACEMENT_GROUP = "# Put all nodes into one placement group: nothing here asks for it.\n"


def placement_group_command(start: Start) -> str:
    """Return the AWS CLI command that makes a placement group; run it once before starting instances."""
    return (
        f"aws ec2 create-placement-group --group-name {PLACEMENT_GROUP} --strategy cluster "
        f"--region {start.spec.offer.region}"
    )


def is_spot(spec: Spec) -> bool:
    """Return whether the cloud may interrupt the instance."""
    return spec.offer.market is Market.SPOT


def aws_image_parameter(start: Start) -> str:
    """Return the SSM parameter of an image for the instance; with a GPU, the image has the driver."""
    instance = start.spec.offer.instance
    arm = instance.cpu.architecture == "arm64"
    if instance.gpu_name:
        return _GPU_IMAGE.format(machine="arm64" if arm else "x86_64")
    return _CPU_IMAGE.format(machine="arm64" if arm else "amd64")


def aws_volume(start: Start) -> dict[str, Any] | None:
    """Return the data disk as EC2's `EbsBlockDevice`, or None if the instance has a local disk."""
    disk = start.spec.disk
    if disk.price is None:
        return None
    choice, iops = disk.choice, disk.choice.iops
    if not iops and choice.type in ("io1", "io2"):  # these types require a number of IOPS
        iops = disk.rate.read_iops
    volume = {
        "VolumeType": choice.type,
        "VolumeSize": round(disk.size_gib),
        "Iops": round(iops) if iops else None,
        "Throughput": round(choice.mib_per_second) if choice.mib_per_second else None,
        "DeleteOnTermination": True,
    }
    return {name: value for name, value in volume.items() if value is not None}
