"""A cluster file for `ray up` with one head node of a spec."""

from __future__ import annotations

from typing import Any

from advisor.domain import Candidate
from advisor.render.exporting.parts import (
    DATA_DEVICE,
    aws_image_parameter,
    aws_volume,
    header,
    is_spot,
)

# Ray looks up the Deep Learning AMI of the region where none is named.
_SSH_USER = "ubuntu"


def cluster(candidate: Candidate) -> str:
    """YAML of the cluster launcher: the head computes, and further instances are workers."""
    import yaml

    offer, workers = candidate.spec.offer, candidate.spec.count - 1
    document = {
        "cluster_name": "advised",
        "max_workers": workers,
        "provider": {"type": "aws", "region": offer.region},
        "auth": {"ssh_user": _SSH_USER},
        "available_node_types": {
            "head": {"resources": {}, "node_config": _node(candidate)},
            **_workers(candidate, workers),
        },
        "head_node_type": "head",
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(candidate) + _remark(candidate) + text


def _remark(candidate: Candidate) -> str:
    """Ray asks EC2 about the image by its id, so that an SSM parameter cannot stand for it."""
    if candidate.spec.offer.instance.cpu.architecture != "arm64":
        return ""
    return (
        "# Ray's own image is for x86 and will not start here: put an arm64 one into node_config\n"
        "# as ImageId; its id is what this prints: aws ssm get-parameter --query Parameter.Value\n"
        f"# --output text --region {candidate.spec.offer.region} --name\n"
        f"# {aws_image_parameter(candidate)}\n"
    )


def _workers(candidate: Candidate, workers: int) -> dict[str, Any]:
    if workers == 0:
        return {}
    bounds = {"min_workers": workers, "max_workers": workers}
    return {"worker": {"resources": {}, **bounds, "node_config": _node(candidate)}}


def _node(candidate: Candidate) -> dict[str, Any]:
    node: dict[str, Any] = {"InstanceType": candidate.spec.offer.instance.name}
    volume = aws_volume(candidate)
    if volume:
        node["BlockDeviceMappings"] = [{"DeviceName": DATA_DEVICE, "Ebs": volume}]
    if is_spot(candidate):
        node["InstanceMarketOptions"] = {"MarketType": "spot"}
    return node
