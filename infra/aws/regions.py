"""What a region has for a sweep: zones that offer the types, subnets, an image, quotas, prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.catalog.quotas import quota_code, quota_name
from advisor.domain import InstanceType, Market
from advisor.errors import AdvisorError
from infra.aws.asking import Aws
from infra.aws.errors import Refused
from infra.aws.findings import Finding, good, missing, not_asked, without
from infra.aws.images import unfit
from infra.aws.launch_options import Image, LaunchOption
from infra.live.spot import newest_by_zone

# Deep Learning AMI with the NVIDIA driver, Ubuntu 24.04; the newest one of each region. Not 22.04:
# its only Python beyond 3.10 is 3.11.0rc1, with which torch 2.12 and newer cannot be imported.
IMAGE_PARAMETER = (
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
)
# A spot request names at most so many times the present price, and never more than on demand: the
# budget counts what it names.
SPOT_HEADROOM = 1.2

# (type, region) -> what an hour costs on demand at most; None where nobody knows.
PriceOf = Callable[[str, str], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRequirements:
    """What would do: types in the order of preference, markets, a subnet where one is named."""

    types: tuple[InstanceType, ...]
    markets: tuple[Market, ...]
    price_of: PriceOf
    subnet: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """Where an instance's interface goes."""

    id: str
    zone: str
    network: str
    free: int


def subnets(aws: Aws, region: str, wish: InstanceRequirements) -> tuple[list[Subnet], Finding]:
    """The default subnets of a region, or the one that is named."""
    asked: dict[str, Any] = {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
    if wish.subnet:
        asked = {"SubnetIds": [wish.subnet]}
    try:
        rows = list(aws.pages(region, "describe_subnets", "Subnets", **asked))
    except AdvisorError as error:
        if isinstance(error, Refused) and error.code.startswith("InvalidSubnet"):
            told = f"{region} has no subnet {wish.subnet}"
            mend = f"`aws ec2 describe-subnets --region {region}`, then give another --subnet"
            return [], missing("subnet", told, mend)
        return [], not_asked("subnet", error)
    found = [
        Subnet(
            id=row["SubnetId"], zone=row["AvailabilityZone"], network=row["VpcId"],
            free=row["AvailableIpAddressCount"],
        )
        for row in rows
    ]  # fmt: skip
    usable = [one for one in found if one.free > 0]
    if not usable:
        return [], missing(
            "subnet", f"{region} has no default subnet with a free address",
            f"`aws ec2 create-default-vpc --region {region}`, or give --subnet",
        )  # fmt: skip
    return usable, good("subnet", f"{len(usable)} in {region}")


def image(aws: Aws, region: str, wish: InstanceRequirements) -> tuple[Image | None, Finding]:
    """The image: the one that is named, or the newest of AWS's with the GPU's driver."""
    try:
        name = wish.image or _newest_image(aws, region)
        answer = aws.ask(region, "describe_images", ImageIds=[name])
    except Refused as refused:
        if refused.code.startswith(("InvalidAMIID", "ParameterNotFound")):
            return None, _no_image(region, wish.image or IMAGE_PARAMETER)
        return None, not_asked("image", refused)
    except AdvisorError as error:
        return None, not_asked("image", error)
    rows = answer.get("Images", ())
    if not rows:
        return None, _no_image(region, name)
    if wrong := unfit(rows[0], wish.types, named=bool(wish.image)):
        return None, wrong
    found = _image(rows[0])
    return found, good("image", f"{found.id} ({rows[0].get('Name', 'no name')})")


def _newest_image(aws: Aws, region: str) -> str:
    answer = aws.ask(region, "get_parameter", service="ssm", Name=IMAGE_PARAMETER)
    return str(answer["Parameter"]["Value"])


def _no_image(region: str, name: str) -> Finding:
    return missing("image", f"{region} has no image {name}", "give another one with --image ami-..")


def _image(row: Mapping[str, Any]) -> Image:
    root = row.get("RootDeviceName", "/dev/sda1")
    sizes = [
        one["Ebs"].get("VolumeSize", 0)
        for one in row.get("BlockDeviceMappings", ())
        if one.get("DeviceName") == root and "Ebs" in one
    ]
    return Image(id=row["ImageId"], root_device=root, root_gib=max(sizes, default=0))


def offered_zones(
    aws: Aws, region: str, types: Sequence[InstanceType]
) -> tuple[dict[str, set[str]], Finding]:
    """The zones that offer each type."""
    asked = [{"Name": "instance-type", "Values": [one.name for one in types]}]
    found: dict[str, set[str]] = {}
    try:
        rows = aws.pages(
            region, "describe_instance_type_offerings", "InstanceTypeOfferings",
            LocationType="availability-zone", Filters=asked,
        )  # fmt: skip
        for row in rows:
            found.setdefault(row["InstanceType"], set()).add(row["Location"])
    except AdvisorError as error:
        return {}, not_asked("offering", error)
    names = ", ".join(one.name for one in types)
    if not found:
        return {}, missing(
            "offering", f"{region} offers none of {names}",
            f"`advisor catalog show {types[0].name}` tells the regions that do",
        )  # fmt: skip
    told = "; ".join(f"{name} in {', '.join(sorted(zones))}" for name, zones in found.items())
    return found, good("offering", told)


def quotas(
    aws: Aws, region: str, wish: InstanceRequirements
) -> tuple[set[tuple[str, Market]], list[Finding]]:
    """Types and markets that the account's quotas allow; what is not told is taken as allowed,
    and EC2 says it then."""
    allowed: set[tuple[str, Market]] = set()
    findings: dict[str, Finding] = {}
    told: dict[str, float | None] = {}
    for market in wish.markets:
        for one in wish.types:
            code = quota_code(one.name, market)
            if code is not None and code not in told:
                told[code], findings[code] = _quota(aws, region, code, one.vcpus)
            limit = told.get(code) if code else None
            if limit is None or one.vcpus <= limit:
                allowed.add((one.name, market))
    return allowed, list(findings.values())


def _quota(aws: Aws, region: str, code: str, needed: int) -> tuple[float | None, Finding]:
    try:
        answer = aws.ask(
            region, "get_service_quota", service="service-quotas", ServiceCode="ec2", QuotaCode=code
        )
        value = float(answer["Quota"]["Value"])
    except (AdvisorError, KeyError) as error:
        told = f"{code} ({quota_name(code)}) was not told: EC2 says at the launch whether it does"
        return None, without("quota", told, error)
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
    """By type and zone what a spot request names at most; zones without a price are left out."""
    if Market.SPOT not in wish.markets:
        return {}, []
    names = [one.name for one in wish.types]
    now = aws.clock.now()
    try:
        rows = list(
            aws.pages(
                region, "describe_spot_price_history", "SpotPriceHistory", InstanceTypes=names,
                ProductDescriptions=["Linux/UNIX"], StartTime=now, EndTime=now,
            )
        )  # fmt: skip
    except AdvisorError as error:
        return {}, [without("spot prices", f"{region} is not tried on the spot market", error)]
    caps: dict[tuple[str, str], float] = {}
    for name, zones in newest_by_zone(rows).items():
        most = wish.price_of(name, region)
        for zone, told in zones.items():
            known = [usd for usd in told if usd is not None]
            if len(known) == len(told) == 1 and most is not None:
                caps[name, zone] = min(most, SPOT_HEADROOM * known[0])
    return caps, []


def options(
    region: str,
    wish: InstanceRequirements,
    zones: Mapping[str, set[str]],
    nets: Sequence[Subnet],
    allowed: set[tuple[str, Market]],
    caps: Mapping[tuple[str, str], float],
) -> Iterator[LaunchOption]:
    """Every offer of the region that is allowed, and whose price is bounded."""
    for one in wish.types:
        for net in nets:
            for market in wish.markets:
                usd = (
                    caps.get((one.name, net.zone))
                    if market is Market.SPOT
                    else wish.price_of(one.name, region)
                )
                offered = net.zone in zones.get(one.name, ())
                if offered and usd is not None and (one.name, market) in allowed:
                    yield LaunchOption(
                        instance_type=one.name, region=region, zone=net.zone, subnet=net.id,
                        market=market, usd_per_hour=usd,
                    )  # fmt: skip
