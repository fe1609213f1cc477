"""What a sweep can launch in a region: zones that offer the types, subnets, an image, quotas, prices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.catalog import load_catalog
from advisor.catalog.support import quota_code, quota_name
from advisor.domain import InstanceType, Market
from advisor.errors import AdvisorError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Finding, absent, good, missing, not_checked
from advisor.infra.aws.launch_options import Image, LaunchOption
from advisor.infra.live.aws import newest_by_zone

# Deep Learning AMI with the NVIDIA driver, Ubuntu 24.04; the newest one of each region. Not 22.04:
# its only Python beyond 3.10 is 3.11.0rc1, with which torch 2.12 and newer cannot be imported.
IMAGE_PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
_ANOTHER_IMAGE = "give another one with --image ami-.."
# A spot request's maximum price: this multiple of the current price, but at most the on-demand price. The
# budget counts with it.
SPOT_HEADROOM = 1.2

# (type, region) -> upper bound of the on-demand price per hour; None if unknown.
PriceOf = Callable[[str, str], float | None]


class InstanceRequirements(Struct, frozen=True, kw_only=True):
    """The acceptable instances: types and markets by preference; a given subnet and image, or empty."""

    types: tuple[InstanceType, ...]
    markets: tuple[Market, ...]
    price_of: PriceOf
    subnet: str = ""
    image: str = ""


class Subnet(Struct, frozen=True, kw_only=True):
    """A subnet for an instance's network interface."""

    id: str
    zone: str
    network: str


def subnets(aws: Aws, region: str, wish: InstanceRequirements) -> tuple[list[Subnet], Finding]:
    """The region's default subnets with a free address, or the given subnet."""
    wanted: dict[str, Any] = {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
    if wish.subnet:
        wanted = {"SubnetIds": [wish.subnet]}
    try:
        rows = list(aws.pages(region, "describe_subnets", "Subnets", **wanted))
    except AdvisorError as error:
        text = f"{region} has no subnet {wish.subnet}"
        mend = f"`aws ec2 describe-subnets --region {region}`, then give another --subnet"
        return [], absent("subnet", error, "InvalidSubnet", text, mend)
    usable = [
        Subnet(id=row["SubnetId"], zone=row["AvailabilityZone"], network=row["VpcId"])
        for row in rows
        if row["AvailableIpAddressCount"] > 0
    ]
    if not usable:
        return [], missing(
            "subnet",
            f"{region} has no default subnet with a free address",
            f"`aws ec2 create-default-vpc --region {region}`, or give --subnet",
        )
    return usable, good("subnet", f"{len(usable)} in {region}")


def image(aws: Aws, region: str, wish: InstanceRequirements) -> tuple[Image | None, Finding]:
    """The given image, or AWS's newest one with the GPU driver."""
    try:
        name = wish.image
        if not name:
            newest = aws.ask(region, "get_parameter", service="ssm", Name=IMAGE_PARAMETER)
            name = str(newest["Parameter"]["Value"])
        answer = aws.ask(region, "describe_images", ImageIds=[name])
    except AdvisorError as error:
        text = f"{region} has no image {wish.image or IMAGE_PARAMETER}"
        return None, absent("image", error, ("InvalidAMIID", "ParameterNotFound"), text, _ANOTHER_IMAGE)
    row = next(iter(answer.get("Images", ())), None)
    if row is None:
        return None, missing("image", f"{region} has no image {name}", _ANOTHER_IMAGE)
    if wrong := unfit(row, wish.types[0], named=bool(wish.image)):
        return None, wrong
    result = _image(row)
    return result, good("image", f"{result.id} ({row.get('Name', 'no name')})")


def _image(row: Mapping[str, Any]) -> Image:
    root, mapped = row.get("RootDeviceName", "/dev/sda1"), row.get("BlockDeviceMappings", ())
    disks = [entry["Ebs"] for entry in mapped if entry.get("DeviceName") == root and "Ebs" in entry]
    root_gib = max((disk.get("VolumeSize", 0) for disk in disks), default=0)
    return Image(id=row["ImageId"], root_device=root, root_gib=root_gib)


def offered_zones(
    aws: Aws, region: str, types: Sequence[InstanceType]
) -> tuple[dict[str, set[str]], Finding]:
    """The zones of a region that offer each type."""
    names = [type_.name for type_ in types]
    wanted: dict[str, Any] = {
        "LocationType": "availability-zone",
        "Filters": [{"Name": "instance-type", "Values": names}],
    }
    result: dict[str, set[str]] = {}
    try:
        for row in aws.pages(region, "describe_instance_type_offerings", "InstanceTypeOfferings", **wanted):
            result.setdefault(row["InstanceType"], set()).add(row["Location"])
    except AdvisorError as error:
        return {}, not_checked("offering", error)
    if not result:
        return {}, missing(
            "offering",
            f"{region} offers none of {', '.join(names)}",
            f"`advisor catalog show {names[0]}` lists the regions that do",
        )
    text = "; ".join(f"{name} in {', '.join(sorted(zones))}" for name, zones in result.items())
    return result, good("offering", text)


def quotas(
    aws: Aws, region: str, wish: InstanceRequirements
) -> tuple[set[tuple[str, Market]], list[Finding]]:
    """The (type, market) pairs within the account's quotas; pairs of unknown quotas are left to EC2."""
    allowed: set[tuple[str, Market]] = set()
    findings: dict[str, Finding] = {}
    facts: dict[str, float | None] = {}
    for market in wish.markets:
        for type_ in wish.types:
            code = quota_code(type_.name, market)
            if code is not None and code not in facts:
                facts[code], findings[code] = _quota(aws, region, code, type_.vcpus)
            limit = facts.get(code) if code else None
            if limit is None or type_.vcpus <= limit:
                allowed.add((type_.name, market))
    return allowed, list(findings.values())


def _quota(aws: Aws, region: str, code: str, needed: int) -> tuple[float | None, Finding]:
    try:
        answer = aws.ask(
            region, "get_service_quota", service="service-quotas", ServiceCode="ec2", QuotaCode=code
        )
        value = float(answer["Quota"]["Value"])
    except (AdvisorError, KeyError) as error:
        text = f"{code} ({quota_name(code)}) is not known: EC2 decides at the launch"
        return None, not_checked("quota", error, text)
    named = f"{code} ({quota_name(code)}) in {region} allows {value:g} vCPUs"
    if value >= needed:
        return value, good("quota", named)
    command = (
        "`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
        f"{code} --desired-value {needed} --region {region}`"
    )
    return value, missing("quota", f"{named}, and {needed} are needed", command)


def spot_caps(
    aws: Aws, region: str, wish: InstanceRequirements
) -> tuple[dict[tuple[str, str], float], list[Finding]]:
    """The maximum price of a spot request by type and zone, without zones that have no price."""
    if Market.SPOT not in wish.markets:
        return {}, []
    now = aws.clock.now()
    wanted: dict[str, Any] = {
        "InstanceTypes": [type_.name for type_ in wish.types],
        "ProductDescriptions": ["Linux/UNIX"],
        "StartTime": now,
        "EndTime": now,
    }
    try:
        rows = list(aws.pages(region, "describe_spot_price_history", "SpotPriceHistory", **wanted))
    except AdvisorError as error:
        return {}, [not_checked("spot prices", error, f"{region} is not tried on the spot market")]
    caps: dict[tuple[str, str], float] = {}
    for name, zones in newest_by_zone(rows).items():
        most = wish.price_of(name, region)
        for zone, prices in zones.items():
            usd, *others = prices
            if usd is not None and not others and most is not None:
                caps[name, zone] = min(most, SPOT_HEADROOM * usd)
    return caps, []


def options(
    region: str,
    wish: InstanceRequirements,
    zones: Mapping[str, set[str]],
    nets: Sequence[Subnet],
    allowed: set[tuple[str, Market]],
    caps: Mapping[tuple[str, str], float],
) -> Iterator[LaunchOption]:
    """The region's launch options that quotas allow and whose price has a known bound."""
    for type_, net, market in itertools.product(wish.types, nets, wish.markets):
        name, is_spot = type_.name, market is Market.SPOT
        usd = caps.get((name, net.zone)) if is_spot else wish.price_of(name, region)
        if net.zone in zones.get(name, ()) and usd is not None and (name, market) in allowed:
            yield LaunchOption(
                instance_type=name,
                region=region,
                zone=net.zone,
                subnet=net.id,
                market=market,
                usd_per_hour=usd,
            )


# NVIDIA's open kernel modules, which AWS's images have, support only Turing and newer GPUs (AWS
# DLAMI release notes: G4dn and newer; aws-parallelcluster issue 6014: not P2, P3, G2, G3).
_OLDEST_OPEN_DRIVER = 7.5


def unfit(row: Mapping[str, Any], type_: InstanceType, *, named: bool) -> Finding | None:
    """Why the image (an item of `Images`) must not be launched on the type; None if it may. With `named` the
    user chose it, and its driver is not checked."""
    name, extra = row["ImageId"], row.get("PlatformDetails", "Linux/UNIX")
    if extra != "Linux/UNIX" or row.get("ProductCodes"):
        return missing(
            "image",
            f"{name} ({extra}) is billed by the hour on top, which no budget counts",
            "give one of plain Linux with --image",
        )
    capability = load_catalog().capability_of(type_.gpu_name)
    if not named and capability is not None and capability < _OLDEST_OPEN_DRIVER:
        return missing(
            "image",
            f"the driver of AWS's image does not know the {type_.gpu_name} of {type_.name}",
            "give one with a proprietary driver of branch 580 with --image",
        )
    return None
