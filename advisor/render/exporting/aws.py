"""Terraform, `ray up` and the AWS CLI: what starts a spec on AWS."""

from __future__ import annotations

import json
import shlex
from typing import Any

from advisor.domain import Candidate
from advisor.render.exporting.parts import (
    DATA_DEVICE,
    aws_image_parameter,
    aws_volume,
    header,
    is_spot,
)

# EC2's fields -> the provider's.
_TERRAFORM_NAMES = {
    "VolumeType": "volume_type",
    "VolumeSize": "volume_size",
    "Iops": "iops",
    "Throughput": "throughput",
    "DeleteOnTermination": "delete_on_termination",
}


def terraform(candidate: Candidate) -> str:
    """Provider, newest image and one instance with its data disk."""
    offer = candidate.spec.offer
    return (
        header(candidate)
        + f"""
terraform {{
  required_providers {{
    aws = {{
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }}
  }}
}}

provider "aws" {{
  region = {json.dumps(offer.region)}
}}

data "aws_ssm_parameter" "image" {{
  name = {json.dumps(aws_image_parameter(candidate))}
}}

resource "aws_instance" "advised" {{
{_count(candidate)}  ami           = data.aws_ssm_parameter.image.value
  instance_type = {json.dumps(offer.instance.name)}
{_volume(candidate)}{_market(candidate)}}}
"""
    )


def _count(candidate: Candidate) -> str:
    count = candidate.spec.count
    return f"  count         = {count}\n" if count > 1 else ""


def _volume(candidate: Candidate) -> str:
    volume = aws_volume(candidate)
    if volume is None:
        return ""
    fields = {"device_name": DATA_DEVICE}
    fields |= {_TERRAFORM_NAMES[name]: value for name, value in volume.items()}
    width = max(map(len, fields))
    lines = [f"    {name.ljust(width)} = {json.dumps(value)}\n" for name, value in fields.items()]
    return "\n  ebs_block_device {\n" + "".join(lines) + "  }\n"


def _market(candidate: Candidate) -> str:
    if not is_spot(candidate):
        return ""
    return '\n  instance_market_options {\n    market_type = "spot"\n  }\n'


# Ray looks up the Deep Learning AMI of the region where none is named.
_SSH_USER = "ubuntu"


def ray_cluster(candidate: Candidate) -> str:
    """YAML of the ray_cluster launcher: the head computes, and further instances are workers."""
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


def aws_command(candidate: Candidate) -> str:
    """One aws_command, an option a line; the newest image is looked up by the service."""
    offer = candidate.spec.offer
    options = [
        ("--region", offer.region),
        ("--instance-type", offer.instance.name),
        ("--image-id", f"resolve:ssm:{aws_image_parameter(candidate)}"),
    ]
    if candidate.spec.count > 1:
        options.append(("--count", str(candidate.spec.count)))
    volume = aws_volume(candidate)
    if volume:
        mapping = [{"DeviceName": DATA_DEVICE, "Ebs": volume}]
        options.append(("--block-device-mappings", json.dumps(mapping)))
    if is_spot(candidate):
        options.append(("--instance-market-options", json.dumps({"MarketType": "spot"})))
    lines = [f"{name} {shlex.quote(value)}" for name, value in options]
    return header(candidate) + " \\\n  ".join(["aws ec2 run-instances", *lines]) + "\n"
