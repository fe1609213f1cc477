"""Which types a region offers now (`ec2:DescribeInstanceTypeOfferings`)."""

from __future__ import annotations

from collections.abc import Sequence

from infra.live.session import as_live_errors, client, in_portions, required

_WHAT = "instance type offerings"


def offered(names: Sequence[str], region: str) -> frozenset[str]:
    """Those of the types that the region has."""
    ec2 = client("ec2", region)
    result: set[str] = set()
    for portion in in_portions(names):
        with as_live_errors(_WHAT):
            pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
                LocationType="region",
                Filters=[{"Name": "instance-type", "Values": portion}],
            )
            result |= {
                required(row, "InstanceType", _WHAT)
                for page in pages
                for row in required(page, "InstanceTypeOfferings", _WHAT)
            }
    return frozenset(result & set(names))
