"""Terraform, `ray up` and the AWS CLI: what starts a spec on AWS."""

from __future__ import annotations

import json
import shlex
from typing import Any

from advisor.render.export.parts import (
    DATA_DEVICE,
    PLACEMENT_GROUP,
    Start,
    aws_image_parameter,
    aws_volume,
    header,
    is_spot,
    placement_group_command,
)

# EC2's fields -> the provider's.
_TERRAFORM_NAMES = {
    "VolumeType": "volume_type",
    "VolumeSize": "volume_size",
    "Iops": "iops",
    "Throughput": "throughput",
    "DeleteOnTermination": "delete_on_termination",
}


def terraform(start: Start) -> str:
    """Provider, newest image and one instance with its data disk."""
    offer = start.spec.offer
    return (
        header(start)
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
  name = {json.dumps(aws_image_parameter(start))}
}}

{_placement_group(start)}resource "aws_instance" "advised" {{
{_count(start)}  ami           = data.aws_ssm_parameter.image.value
  instance_type = {json.dumps(offer.instance.name)}
{_placement(start)}{_user_data(start)}{_volume(start)}{_market(start)}}}
"""
    )


def _placement_group(start: Start) -> str:
    if not start.network:
        return ""
    return (
        'resource "aws_placement_group" "advised" {\n'
        f'  name     = "{PLACEMENT_GROUP}"\n  strategy = "cluster"\n}}\n\n'
    )


def _placement(start: Start) -> str:
    return "\n  placement_group = aws_placement_group.advised.name\n" if start.network else ""


def _user_data(start: Start) -> str:
    """The script that cloud-init runs: a heredoc, in which `${` would be Terraform's."""
    if not start.run:
        return ""
    lines = "".join(f"{line}\n" for line in start.run).replace("${", "$${")
    return f"\n  user_data = <<-EOT\n#!/bin/bash\n{lines}EOT\n"


def _count(start: Start) -> str:
    count = start.spec.count
    return f"  count         = {count}\n" if count > 1 else ""


def _volume(start: Start) -> str:
    volume = aws_volume(start)
    if volume is None:
        return ""
    fields = {"device_name": DATA_DEVICE}
    fields |= {_TERRAFORM_NAMES[name]: value for name, value in volume.items()}
    width = max(map(len, fields))
    lines = [f"    {name.ljust(width)} = {json.dumps(value)}\n" for name, value in fields.items()]
    return "\n  ebs_block_device {\n" + "".join(lines) + "  }\n"


def _market(start: Start) -> str:
    if not is_spot(start):
        return ""
    return '\n  instance_market_options {\n    market_type = "spot"\n  }\n'


# Ray looks up the Deep Learning AMI of the region where none is named.
_SSH_USER = "ubuntu"


def ray_cluster(start: Start) -> str:
    """YAML of the ray_cluster launcher: the head computes, and further instances are workers."""
    import yaml

    offer, workers = start.spec.offer, start.spec.count - 1
    document = {
        "cluster_name": "advised",
        "max_workers": workers,
        "provider": {"type": "aws", "region": offer.region},
        "auth": {"ssh_user": _SSH_USER},
        "available_node_types": {
            "head": {"resources": {}, "node_config": _node(start)},
            **_workers(start, workers),
        },
        "head_node_type": "head",
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(start) + _remark(start) + text


def _remark(start: Start) -> str:
    """Ray asks EC2 about the image by its id, so that an SSM parameter cannot stand for it; and it
    makes no placement group."""
    first = f"# Run first: {placement_group_command(start)}\n" if start.network else ""
    if start.spec.offer.instance.cpu.architecture != "arm64":
        return first
    return first + (
        "# Ray's own image is for x86 and will not start here: put an arm64 one into node_config\n"
        "# as ImageId; its id is what this prints: aws ssm get-parameter --query Parameter.Value\n"
        f"# --output text --region {start.spec.offer.region} --name\n"
        f"# {aws_image_parameter(start)}\n"
    )


def _workers(start: Start, workers: int) -> dict[str, Any]:
    if workers == 0:
        return {}
    bounds = {"min_workers": workers, "max_workers": workers}
    return {"worker": {"resources": {}, **bounds, "node_config": _node(start)}}


def _node(start: Start) -> dict[str, Any]:
    node: dict[str, Any] = {"InstanceType": start.spec.offer.instance.name}
    volume = aws_volume(start)
    if volume:
        node["BlockDeviceMappings"] = [{"DeviceName": DATA_DEVICE, "Ebs": volume}]
    if is_spot(start):
        node["InstanceMarketOptions"] = {"MarketType": "spot"}
    if start.network:
        node["Placement"] = {"GroupName": PLACEMENT_GROUP}
    return node


def aws_command(start: Start) -> str:
    """One aws_command, an option a line; the newest image is looked up by the service."""
    offer = start.spec.offer
    options = [
        ("--region", offer.region),
        ("--instance-type", offer.instance.name),
        ("--image-id", f"resolve:ssm:{aws_image_parameter(start)}"),
    ]
    if start.spec.count > 1:
        options.append(("--count", str(start.spec.count)))
    volume = aws_volume(start)
    if volume:
        mapping = [{"DeviceName": DATA_DEVICE, "Ebs": volume}]
        options.append(("--block-device-mappings", json.dumps(mapping)))
    if is_spot(start):
        options.append(("--instance-market-options", json.dumps({"MarketType": "spot"})))
    if start.network:
        options.append(("--placement", f"GroupName={PLACEMENT_GROUP}"))
    lines = [f"{name} {shlex.quote(value)}" for name, value in options]
    first = f"{placement_group_command(start)}\n" if start.network else ""
    return header(start) + first + " \\\n  ".join(["aws ec2 run-instances", *lines]) + "\n"
