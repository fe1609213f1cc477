"""Files that start a spec: SkyPilot and dstack on several clouds; Terraform, Ray and the AWS CLI on AWS."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

from advisor.domain import Disk
from advisor.render.export.parts import (
    DATA_DEVICE,
    NO_PLACEMENT_GROUP,
    PLACEMENT_GROUP,
    Start,
    aws_image_parameter,
    aws_volume,
    header,
    is_spot,
    placement_group_command,
)

# SkyPilot keeps the data on the boot disk, with the system and the driver.
_SYSTEM_GIB = 50
# (tier, IOPS, MiB/s) on AWS, slowest first: skypilot `sky/clouds/aws.py`, `_get_disk_specs`.
_AWS_TIERS = (("medium", 3500, 218), ("high", 7000, 437), ("ultra", 20000, 4000))


def skypilot_task(start: Start) -> str:
    """Return a SkyPilot task with its `resources`; the user adds `setup` and, unless it serves, `run`."""
    import yaml

    offer, disk = start.spec.offer, start.spec.disk
    resources: dict[str, Any] = {
        "infra": f"{offer.instance.cloud}/{offer.region}",
        "instance_type": offer.instance.name,
        "use_spot": is_spot(start.spec),
    }
    remark = ""
    if disk.price is not None:
        resources["disk_size"] = math.ceil(disk.size_gib) + _SYSTEM_GIB
        if offer.instance.cloud == "aws":
            resources["disk_tier"], remark = _tier(disk)
    nodes = {"num_nodes": start.spec.count} if start.spec.count > 1 else {}
    remark += NO_PLACEMENT_GROUP if start.network else ""
    text: str = yaml.safe_dump({**nodes, "resources": resources}, sort_keys=False)
    # PyYAML would fold and quote these lines, so they are written directly.
    run = "".join(["run: |\n", *(f"  {line}\n" for line in start.run)]) if start.run else ""
    return header(start) + remark + text + run


def _tier(disk: Disk) -> tuple[str, str]:
    """Return the slowest tier that is as fast as the disk, else the fastest one, with a comment about it."""
    iops, rate = disk.rate.read_iops or 0, disk.rate.read_mib_per_second or 0
    for name, tier_iops, tier_rate in _AWS_TIERS:
        if iops <= tier_iops and rate <= tier_rate:
            return name, f"# disk_tier {name} stands for {disk.choice}; its price differs.\n"
    name = _AWS_TIERS[-1][0]
    return name, f"# No tier of SkyPilot reaches {disk.choice}: {name} is the fastest.\n"


# dstack keeps the data on the boot disk, with the system and the image.
_DSTACK_SYSTEM_GIB = 100


def dstack_task(start: Start) -> str:
    """Return a dstack task that shows the GPU or the CPUs; the user replaces its `commands`."""
    import yaml

    offer, disk, machine = start.spec.offer, start.spec.disk, start.spec.offer.instance
    size = _DSTACK_SYSTEM_GIB + (math.ceil(disk.size_gib) if disk.price is not None else 0)
    document: dict[str, Any] = {
        "type": "task",
        "name": "advised",
        **({"nodes": start.spec.count} if start.spec.count > 1 else {}),
        "commands": list(start.run) or ["nvidia-smi" if machine.gpu_name else "lscpu"],
        "backends": [offer.instance.cloud],
        "regions": [offer.region],
        "instance_types": [machine.name],
        "spot_policy": "spot" if is_spot(start.spec) else "on-demand",
        # By default dstack asks for x86 with 2 vCPUs and 8 GB, which rules out smaller types.
        "resources": {
            "cpu": f"{'arm:' if machine.cpu.architecture == 'arm64' else ''}{machine.vcpus}..",
            "memory": f"{machine.memory_mib / 1024:g}GB..",
            "disk": f"{size}GB..",
        },
    }
    remark = ""
    if disk.price is not None:
        remark = f"# dstack chooses the disk's type; {disk.choice} is what the rate stands on.\n"
    remark += NO_PLACEMENT_GROUP if start.network else ""
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(start) + remark + text


# EC2's field names -> the Terraform provider's.
_TERRAFORM_NAMES = {
    "VolumeType": "volume_type",
    "VolumeSize": "volume_size",
    "Iops": "iops",
    "Throughput": "throughput",
    "DeleteOnTermination": "delete_on_termination",
}


def terraform(start: Start) -> str:
    """Return the provider, the newest image, and one instance with its data disk."""
    offer, count = start.spec.offer, start.spec.count
    group = placement = user_data = ""
    if start.network:
        placement = "\n  placement_group = aws_placement_group.advised.name\n"
        group = (
            'resource "aws_placement_group" "advised" {\n'
            f'  name     = "{PLACEMENT_GROUP}"\n  strategy = "cluster"\n}}\n\n'
        )
    if start.run:
        # cloud-init runs this script. It is in a heredoc, so `${` is escaped from Terraform.
        lines = "".join(f"{line}\n" for line in start.run).replace("${", "$${")
        token = "export HF_TOKEN=${var.hf_token}\n"
        user_data = f"\n  user_data = <<-EOT\n#!/bin/bash\n{token}{lines}EOT\n"
        group = 'variable "hf_token" {\n  default   = ""\n  sensitive = true\n}\n\n' + group
    counted = f"  count         = {count}\n" if count > 1 else ""
    market = '\n  instance_market_options {\n    market_type = "spot"\n  }\n' if is_spot(start.spec) else ""
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

{group}resource "aws_instance" "advised" {{
{counted}  ami           = data.aws_ssm_parameter.image.value
  instance_type = {json.dumps(offer.instance.name)}
{placement}{user_data}{_volume(start)}{market}}}
"""
    )


def _volume(start: Start) -> str:
    volume = aws_volume(start)
    if volume is None:
        return ""
    fields = {"device_name": DATA_DEVICE}
    fields |= {_TERRAFORM_NAMES[name]: value for name, value in volume.items()}
    width = max(map(len, fields))
    lines = [f"    {name.ljust(width)} = {json.dumps(value)}\n" for name, value in fields.items()]
    beside = "  # Beside the boot disk, whose size is the image's and whose price is not counted.\n"
    return f"\n{beside}  ebs_block_device {{\n{''.join(lines)}  }}\n"


# Without a given image, Ray uses the region's Deep Learning AMI, whose user this is.
_SSH_USER = "ubuntu"


def ray_cluster(start: Start) -> str:
    """Return YAML for Ray's cluster launcher: the head node computes too, and other instances are workers."""
    import yaml

    offer, workers = start.spec.offer, start.spec.count - 1
    types: dict[str, Any] = {"head": {"resources": {}, "node_config": _node(start)}}
    if workers:
        bounds = {"min_workers": workers, "max_workers": workers}
        types["worker"] = {"resources": {}, **bounds, "node_config": _node(start)}
    document = {
        "cluster_name": "advised",
        "max_workers": workers,
        "provider": {"type": "aws", "region": offer.region},
        "auth": {"ssh_user": _SSH_USER},
        "available_node_types": types,
        "head_node_type": "head",
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return header(start) + _remark(start) + text


def _remark(start: Start) -> str:
    """Return comments: Ray accepts no SSM parameter as an image, and makes no placement group."""
    first = f"# Run first: {placement_group_command(start)}\n" if start.network else ""
    if start.spec.offer.instance.cpu.architecture != "arm64":
        return first
    return first + (
        "# Ray's own image is for x86 and will not start here: put an arm64 one into node_config\n"
        "# as ImageId; its id is what this prints: aws ssm get-parameter --query Parameter.Value\n"
        f"# --output text --region {start.spec.offer.region} --name\n"
        f"# {aws_image_parameter(start)}\n"
    )


def _node(start: Start) -> dict[str, Any]:
    node: dict[str, Any] = {"InstanceType": start.spec.offer.instance.name}
    volume = aws_volume(start)
    if volume:
        node["BlockDeviceMappings"] = [{"DeviceName": DATA_DEVICE, "Ebs": volume}]
    if is_spot(start.spec):
        node["InstanceMarketOptions"] = {"MarketType": "spot"}
    if start.network:
        node["Placement"] = {"GroupName": PLACEMENT_GROUP}
    return node


def aws_command(start: Start) -> str:
    """Return one AWS CLI command, an option per line; AWS looks up the newest image."""
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
    if is_spot(start.spec):
        options.append(("--instance-market-options", json.dumps({"MarketType": "spot"})))
    if start.network:
        options.append(("--placement", f"GroupName={PLACEMENT_GROUP}"))
    lines = [f"{name} {shlex.quote(value)}" for name, value in options]
    first = f"{placement_group_command(start)}\n" if start.network else ""
    return header(start) + first + " \\\n  ".join(["aws ec2 run-instances", *lines]) + "\n"
