"""Checks that an instance in a subnet reaches what it needs: package indexes and AWS itself, or S3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.errors import AdvisorError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.findings import Finding, good, missing, without

if TYPE_CHECKING:
    from advisor.infra.aws.regions import Subnet

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
    (`is_prebuilt`) does with a gateway endpoint of S3.

    Where tables may not be listed all are kept: a start that fails leaves its log.
    """
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
