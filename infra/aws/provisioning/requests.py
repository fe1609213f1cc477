"""The request that makes an instance: everything that keeps it safe is in it from the start."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from advisor.domain import Market
from infra.aws import tags
from infra.aws.launch_options import Image, LaunchOption, Sweep, Volume, client_token

# What `RunInstances` makes and can tag.
_TAGGED = ("instance", "volume", "network-interface")
_TAGGED_SPOT = (*_TAGGED, "spot-instances-request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One offer of a sweep's slot, ready to be asked for; the same order is the same request."""

    sweep: Sweep
    slot: str
    generation: int
    option: LaunchOption
    image: Image
    group: str
    network: str
    user_data: str
    expires_at: datetime
    usd_per_hour: float
    spent_before_usd: float

    @property
    def token(self) -> str:
        """Its `ClientToken`."""
        return client_token(self.sweep.id, self.slot, self.generation, self.option)


def run_instances(order: Order) -> dict[str, Any]:
    """The parameters of `RunInstances`."""
    sweep, option = order.sweep, order.option
    request: dict[str, Any] = {
        "ClientToken": order.token,
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": order.image.id,
        "InstanceType": option.instance_type,
        "UserData": order.user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        # One hop: a container on the instance does not reach its credentials.
        "MetadataOptions": {
            "HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1,
            "InstanceMetadataTags": "enabled",
        },
        "BlockDeviceMappings": _disks(order),
        # A public address to reach the outside by, and a group without any rule for what comes in.
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0, "SubnetId": option.subnet, "Groups": [order.group],
                "AssociatePublicIpAddress": True, "DeleteOnTermination": True,
            }
        ],
    }  # fmt: skip
    is_spot = option.market is Market.SPOT
    request["TagSpecifications"] = tags.specifications(
        order_tags(order), _TAGGED_SPOT if is_spot else _TAGGED
    )
    if sweep.profile:
        request["IamInstanceProfile"] = {"Name": sweep.profile}
    if is_spot:
        request["InstanceMarketOptions"] = _spot(option)
    return request


def order_tags(order: Order) -> Mapping[str, str]:
    """What the instance and its volumes carry."""
    sweep = order.sweep
    return {
        **tags.base_tags(sweep.id, sweep.owner, order.expires_at, sweep.budget_usd),
        tags.SLOT: order.slot,
        tags.GENERATION: str(order.generation),
        tags.USD_PER_HOUR: f"{order.usd_per_hour:.6f}",
        tags.SPENT_BEFORE_USD: f"{order.spent_before_usd:.6f}",
    }


def size_of(user_data: str) -> int:
    """Bytes as EC2 counts them: 16 KiB at most, before base64 (boto3 encodes)."""
    return len(base64.b64encode(user_data.encode())) * 3 // 4


def _disks(order: Order) -> list[dict[str, Any]]:
    root_gib = max(order.sweep.root_gib, order.image.root_gib)
    root = Volume(type="gp3", size_gib=root_gib)
    named = zip(order.sweep.devices, order.sweep.volumes, strict=True)
    return [
        {"DeviceName": device, "Ebs": _ebs(volume)}
        for device, volume in ((order.image.root_device, root), *named)
    ]


def _ebs(volume: Volume) -> dict[str, Any]:
    given = {
        "VolumeType": volume.type,
        "VolumeSize": volume.size_gib,
        "Iops": volume.iops,
        "Throughput": volume.mib_per_second,
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    return {name: value for name, value in given.items() if value is not None}


def _spot(option: LaunchOption) -> dict[str, Any]:
    options = {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
        "MaxPrice": f"{option.usd_per_hour:.6f}",
    }
    return {"MarketType": "spot", "SpotOptions": options}
