"""Everything that is looked at before a launch, all of it, and the ladder that comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.errors import AdvisorError
from advisor.infra.aws import accounts, regions
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.launch_options import LaunchOption, Region, Sweep
from advisor.infra.aws.orders import Order, in_order
from advisor.infra.aws.permissions import Finding, good, missing, not_checked, without
from advisor.infra.aws.regions import InstanceRequirements, Subnet

_EVERYWHERE = "0.0.0.0/0"
# What a route may lead to (EC2 API, `Route`), and AWS's own gateways to S3 among them.
_TARGETS = (
    "GatewayId",
    "NatGatewayId",
    "TransitGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "VpcPeeringConnectionId",
    "CoreNetworkArn",
    "LocalGatewayId",
    "CarrierGatewayId",
)
_ENDPOINT = "vpce-"


def routed(
    aws: Aws, region: str, subnets: Sequence[Subnet], *, is_prebuilt: bool
) -> tuple[list[Subnet], list[Finding]]:
    """Those of the subnets (of one network) that have a way out. An image with all packages in it
    (`is_prebuilt`) does with a gateway endpoint of S3. Where tables may not be listed all are kept: a start
    that fails leaves its log."""
    if not subnets:
        return [], []
    network = subnets[0].network
    filters = [{"Name": "vpc-id", "Values": [network]}]
    try:
        tables = list(aws.pages(region, "describe_route_tables", "RouteTables", Filters=filters))
    except AdvisorError as error:
        text = f"whether {network} has a way out is not known: pip fails there without one"
        return list(subnets), [without("route", text, error)]
    kept = [subnet for subnet in subnets if leads_out(_table_of(subnet, tables), is_prebuilt)]
    if kept:
        return kept, [good("route", f"{len(kept)} of {len(subnets)} subnets in {network} lead out")]
    table = _table_of(subnets[0], tables).get("RouteTableId", "TABLE")
    return [], [
        missing(
            "route",
            f"no subnet of {network} in {region} has a route to the internet, and the "
            "start script fetches packages from there",
            f"`aws ec2 create-route --region {region} --route-table-id {table} "
            "--destination-cidr-block 0.0.0.0/0 --gateway-id igw-..` (or --nat-gateway-id nat-..); "
            "give another --subnet; or an --image with all packages (infra/image) and a gateway "
            "endpoint of S3",
        )
    ]


def leads_out(table: Mapping[str, Any], is_prebuilt: bool) -> bool:
    """Whether an active route of the table leads everywhere, or, for a prebuilt image, to S3."""
    return any(
        route.get("DestinationCidrBlock") == _EVERYWHERE
        or (is_prebuilt and _target(route).startswith(_ENDPOINT))
        for route in table.get("Routes", ())
        if route.get("State") == "active" and _target(route) not in ("", "local")
    )


def _target(route: Mapping[str, Any]) -> str:
    return next((str(route[name]) for name in _TARGETS if route.get(name)), "")


def _table_of(subnet: Subnet, tables: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The table that the subnet is associated with, else its network's main one."""
    main: Mapping[str, Any] = {}
    for table in tables:
        for link in table.get("Associations", ()):
            if link.get("SubnetId") == subnet.id:
                return table
            main = table if link.get("Main") else main
    return main


class Preflight(Struct, frozen=True, kw_only=True):
    """The findings, region by region, and the offers in the order in which they are tried. `caller` is
    the account's identity (empty: unknown, and nothing else was checked)."""

    caller: str
    findings: tuple[Finding, ...]
    regions: tuple[Region, ...]
    options: tuple[LaunchOption, ...]


def look(aws: Aws, names: Sequence[str], wish: InstanceRequirements, sweep: Sweep) -> Preflight:
    """Look at the account and at each region, the first of which is the one that was asked for. What is
    missing in a further region only leaves that region out."""
    caller, who = accounts.credentials(aws, names[0])
    if not who.ok:
        return Preflight(caller="", findings=(who,), regions=(), options=())
    findings = [who, accounts.profile(aws, names[0], sweep.profile)]
    existing: list[Region] = []
    offers: list[LaunchOption] = []
    for name in names:
        region, result, facts = _region(aws, name, wish)
        stops = name == names[0] and not result
        findings += [replace(entry, stops=stops and entry.stops) for entry in facts]
        if region is not None and result:
            existing.append(region)
            offers += result
    types = [type_.name for type_ in wish.types]
    ordered = tuple(in_order(offers, types, names))
    return Preflight(caller=caller, findings=tuple(findings), regions=tuple(existing), options=ordered)


def _region(
    aws: Aws, name: str, wish: InstanceRequirements
) -> tuple[Region | None, list[LaunchOption], list[Finding]]:
    enabled = accounts.region_enabled(aws, name)
    if not enabled.ok:
        return None, [], [enabled]
    nets, about_nets = regions.subnets(aws, name, wish)
    image, about_image = regions.image(aws, name, wish)
    zones, about_zones = regions.offered_zones(aws, name, wish.types)
    allowed, about_quotas = regions.quotas(aws, name, wish)
    # One network: the group is made in it.
    own = [net for net in nets if net.network == nets[0].network]
    own, about_routes = routed(aws, name, own, is_prebuilt=bool(wish.image))
    facts = [enabled, about_nets, *about_routes, about_image, about_zones, *about_quotas]
    if image is None or not own or not zones:
        return None, [], facts
    caps, about_spot = regions.spot_caps(aws, name, wish)
    facts += about_spot
    result = list(regions.options(name, wish, zones, own, allowed, caps))
    if not result and all(entry.ok or not entry.stops for entry in facts):
        types = ", ".join(type_.name for type_ in wish.types)
        text = f"no zone of {name} with a subnet offers {types} at a known price"
        mend = f"`advisor catalog refresh --region {name}`, another --region, or --subnet"
        facts.append(missing("offer", text, mend))
    return Region(name=name, image=image, network=own[0].network), result, facts


def allowed(aws: Aws, preflight: Preflight, sweep: Sweep, slot: str) -> list[Finding]:
    """Whether the first offer may be launched and ended; EC2 is asked with `DryRun`."""
    if not preflight.options:
        return []
    option, region = preflight.options[0], preflight.regions[0]
    order = Order(
        sweep=sweep,
        slot=slot,
        generation=0,
        option=option,
        image=region.image,
        group="",
        network=region.network,
        user_data="",
        expires_at=aws.clock.now(),
        usd_per_hour=0.0,
        spent_before_usd=0.0,
    )
    looks = accounts.lists(aws, option.region)
    return [looks, *accounts.permissions(aws, order, preflight.caller)]


def bucket(aws: Aws, region: str, name: str) -> tuple[str, Finding]:
    """The region of the bucket that job and measurements go through, and whether it is there."""
    if not name:
        return "", missing(
            "bucket",
            "none is named: the instance gets its job and sends its measurements by one",
            "`aws s3 mb s3://NAME`, then --bucket NAME or ADVISOR_BUCKET=NAME",
        )
    try:
        home = _readable_bucket(aws, region, name)
    except AdvisorError as error:
        if isinstance(error, Refused) and error.code in ("NoSuchBucket", "404"):
            mend = f"`aws s3 mb s3://{name} --region {region}`"
            return "", missing("bucket", f"there is no bucket {name}", mend)
        return "", not_checked("bucket", error)
    return home, good("bucket", f"{name} in {home}")


def _readable_bucket(aws: Aws, region: str, name: str) -> str:
    """The region of the bucket; `Refused` where it, or what is in it, may not be read. Whether it
    may be written is seen before a launch, and not in a dry run."""
    answer = aws.ask(region, "get_bucket_location", service="s3", Bucket=name)
    # Buckets of the first region have no location, old ones of Ireland a continent.
    constraint = answer.get("LocationConstraint") or "us-east-1"
    home = "eu-west-1" if constraint == "EU" else constraint
    aws.ask(home, "list_objects_v2", service="s3", Bucket=name, Prefix="sweeps/", MaxKeys=1)
    try:
        aws.ask(home, "get_object", service="s3", Bucket=name, Key="sweeps/none")
    except Refused as refused:
        if refused.code not in ("NoSuchKey", "404"):
            raise
    return home
