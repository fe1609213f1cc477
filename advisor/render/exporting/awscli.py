"""`aws ec2 run-instances` for a spec."""

from __future__ import annotations

import json
import shlex

from advisor.domain import Candidate
from advisor.render.exporting.parts import (
    DATA_DEVICE,
    aws_image_parameter,
    aws_volume,
    header,
    is_spot,
)


def command(candidate: Candidate) -> str:
    """One command, an option a line; the newest image is looked up by the service."""
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
