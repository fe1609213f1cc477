"""A Terraform configuration (provider hashicorp/aws) for a spec."""

from __future__ import annotations

import json

from advisor.domain import Candidate
from advisor.render.exporting.parts import (
    DATA_DEVICE,
    aws_image_parameter,
    aws_volume,
    header,
    is_spot,
)

# EC2's words -> the provider's.
_VOLUME_WORDS = {
    "VolumeType": "volume_type",
    "VolumeSize": "volume_size",
    "Iops": "iops",
    "Throughput": "throughput",
    "DeleteOnTermination": "delete_on_termination",
}


def configuration(candidate: Candidate) -> str:
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
    words = {"device_name": DATA_DEVICE}
    words |= {_VOLUME_WORDS[name]: value for name, value in volume.items()}
    width = max(map(len, words))
    lines = [f"    {name.ljust(width)} = {json.dumps(value)}\n" for name, value in words.items()]
    return "\n  ebs_block_device {\n" + "".join(lines) + "  }\n"


def _market(candidate: Candidate) -> str:
    if not is_spot(candidate):
        return ""
    return '\n  instance_market_options {\n    market_type = "spot"\n  }\n'
