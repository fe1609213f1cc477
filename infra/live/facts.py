"""What AWS knows of types: what they have, where they are offered, how many may run.

`ec2:DescribeInstanceTypes`, `ec2:DescribeInstanceTypeOfferings`, `servicequotas:GetServiceQuota`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.catalog.support import quota_code
from advisor.domain import Market
from advisor.errors import LiveError
from advisor.infra.live.failures import unreadable
from advisor.infra.live.session import as_live_errors, client, in_portions, required

_WHAT = "instance types"


class Facts(Struct, frozen=True):
    """What can be compared with the catalogue; `gpu_count` counts shares of a GPU, too."""

    vcpus: int
    memory_mib: int
    gpu_count: int


def facts(names: Sequence[str], region: str) -> dict[str, Facts]:
    """The facts of those types that the region knows."""
    ec2 = client("ec2", region)
    answer: dict[str, Facts] = {}
    for portion in in_portions(names):
        with as_live_errors(_WHAT):
            pages = ec2.get_paginator("describe_instance_types").paginate(
                Filters=[{"Name": "instance-type", "Values": portion}]
            )
            rows = [row for page in pages for row in required(page, "InstanceTypes", _WHAT)]
        answer |= dict(map(_facts, rows))
    return {name: answer[name] for name in names if name in answer}


def _facts(row: Mapping[str, Any]) -> tuple[str, Facts]:
    try:
        gpus = row.get("GpuInfo", {}).get("Gpus", ())
        # A share of a GPU has Count 0 and LogicalGpuCount 1.
        count = sum(max(gpu["Count"], gpu.get("LogicalGpuCount", 0)) for gpu in gpus)
        vcpus, memory = row["VCpuInfo"]["DefaultVCpus"], row["MemoryInfo"]["SizeInMiB"]
        return row["InstanceType"], Facts(int(vcpus), int(memory), count)
    except (KeyError, TypeError, AttributeError) as error:
        raise unreadable(f"AWS {_WHAT}") from error


_OFFERINGS = "instance type offerings"


def offered(names: Sequence[str], region: str) -> frozenset[str]:
    """Those of the types that the region has."""
    ec2 = client("ec2", region)
    result: set[str] = set()
    for portion in in_portions(names):
        with as_live_errors(_OFFERINGS):
            pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
                LocationType="region", Filters=[{"Name": "instance-type", "Values": portion}]
            )
            result |= {
                required(row, "InstanceType", _OFFERINGS)
                for page in pages
                for row in required(page, "InstanceTypeOfferings", _OFFERINGS)
            }
    return frozenset(result & set(names))


def vcpu_quota(instance_type: str, region: str, market: Market) -> float | None:
    """vCPUs the account may run at once of the type's kind; None where no code is known."""
    code = quota_code(instance_type, market)
    if code is None:
        return None
    quotas = client("service-quotas", region)
    with as_live_errors("quotas"):
        answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)
    value = required(required(answer, "Quota", "quotas"), "Value", "quotas")
    if not math.isfinite(value) or value < 0:
        raise LiveError(
            "AWS reports a quota of {value} vCPUs for {code_name}, which is none", value=value, code_name=code
        )
    return float(value)
