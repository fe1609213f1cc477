"""A cluster file for `ray up` with one head node of a spec."""

from __future__ import annotations

from typing import Any

from advisor.domain import Candidate
from advisor.report.exporting.parts import DATA_DEVICE, aws_volume, header, is_spot

# Ray looks up the Deep Learning AMI of the region where none is named.
_SSH_USER = "ubuntu"


def cluster(candidate: Candidate) -> str:
    """YAML of the cluster launcher: the head computes, no workers."""
    import yaml

    offer = candidate.spec.offer
    document = {
        "cluster_name": "advised",
        "max_workers": 0,
        "provider": {"type": "aws", "region": offer.region},
        "auth": {"ssh_user": _SSH_USER},
        "available_node_types": {
            "head": {"resources": {}, "node_config": _node(candidate)},
        },
        "head_node_type": "head",
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(candidate) + text


def _node(candidate: Candidate) -> dict[str, Any]:
    node: dict[str, Any] = {"InstanceType": candidate.spec.offer.instance.name}
    volume = aws_volume(candidate)
    if volume:
        node["BlockDeviceMappings"] = [{"DeviceName": DATA_DEVICE, "Ebs": volume}]
    if is_spot(candidate):
        node["InstanceMarketOptions"] = {"MarketType": "spot"}
    return node
