"""Whether the account can launch and, above all, end instances: credentials and permissions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.errors import AdvisorError, LiveError
from infra.aws import tags
from infra.aws.asking import Aws
from infra.aws.errors import Kind, Refused
from infra.aws.findings import Finding, good, missing, not_asked
from infra.aws.permissions import action_of, mend_of, statement
from infra.aws.requests import Order, run_instances

# No instance has this id: EC2 looks at the permission first.
_NOBODY = "i-00000000000000000"
_NO_GROUP = "sg-00000000000000000"


def credentials(aws: Aws, region: str) -> Finding:
    """Who asks."""
    try:
        answer = aws.ask(region, "get_caller_identity", service="sts")
    except LiveError as error:
        return missing("credentials", "there are none", str(error))
    except AdvisorError as error:
        return not_asked("credentials", error)
    return good("credentials", f"{answer.get('Arn', 'accepted')}")


def region_enabled(aws: Aws, region: str, home: str = "us-east-1") -> Finding:
    """Whether the account may use a region: newer ones have to be opted into."""
    try:
        answer = aws.ask(home, "describe_regions", RegionNames=[region], AllRegions=True)
    except Refused as refused:
        if refused.code == "InvalidParameterValue":
            return missing("region", f"there is no region {region}", "`aws ec2 describe-regions`")
        return not_asked("region", refused)
    except AdvisorError as error:
        return not_asked("region", error)
    told = [one.get("OptInStatus", "opt-in-not-required") for one in answer.get("Regions", ())]
    if not told or told[0] == "not-opted-in":
        return missing(
            "region", f"the account has not opted into {region}",
            f"`aws account enable-region --region-name {region}`",
        )  # fmt: skip
    return good("region", f"{region} is enabled")


def profile(aws: Aws, region: str, name: str) -> Finding:
    """The instance profile: the role by which the guest writes what it measures."""
    if not name:
        return good("profile", "none: the guest gets no rights of its own")
    try:
        aws.ask(region, "get_instance_profile", service="iam", InstanceProfileName=name)
    except Refused as refused:
        if refused.code == "NoSuchEntity":
            return missing(
                "profile", f"there is no instance profile {name}",
                "docs/operating.md makes it with one command; or give --instance-profile none",
            )  # fmt: skip
        if refused.kind is Kind.PERMISSION:  # it may exist all the same: the dry run tells
            return good("profile", f"{name}, which may not be looked at")
        return not_asked("profile", refused)
    except AdvisorError as error:
        return not_asked("profile", error)
    return good("profile", name)


def permissions(aws: Aws, order: Order) -> Iterator[Finding]:
    """Whether what a launch and its end ask for is allowed, by EC2's `DryRun`: nothing is made."""
    region, sweep = order.rung.region, order.sweep
    described = tags.base_tags(sweep.id, sweep.owner, order.expires_at, sweep.budget_usd)
    asked: dict[str, dict[str, Any]] = {
        "terminate_instances": {"InstanceIds": [_NOBODY]},
        "create_security_group": {
            "GroupName": tags.name_of(sweep.id), "Description": "dry run",
            "VpcId": order.network,
            "TagSpecifications": tags.specifications(described, ["security-group"]),
        },
        "delete_security_group": {"GroupId": _NO_GROUP},
        "create_tags": {"Resources": [_NOBODY], "Tags": [{"Key": tags.NAME, "Value": "dry run"}]},
        "run_instances": _without_group(run_instances(order)),
    }  # fmt: skip
    for operation, request in asked.items():
        yield _dry_run(aws, region, operation, request)


def _dry_run(aws: Aws, region: str, operation: str, request: dict[str, Any]) -> Finding:
    action = action_of("".join(word.capitalize() for word in operation.split("_")))
    try:
        aws.ask(region, operation, DryRun=True, **request)
    except Refused as refused:
        if refused.kind is Kind.OK or _names_nothing(refused):
            return good("permission", f"{action} is allowed")
        if refused.kind is Kind.PERMISSION:
            return missing("permission", f"{action} is denied", mend_of(refused))
        return missing("dry run", str(refused), mend_of(refused))
    except AdvisorError as error:
        return not_asked("permission", error)
    return missing("dry run", f"{action} answers a dry run as if it were done", statement(action))


def _names_nothing(refused: Refused) -> bool:
    """Allowed as far as can be told: only what was named does not exist (or exists already)."""
    return ".NotFound" in refused.code or refused.code.startswith("Invalid")


def _without_group(request: dict[str, Any]) -> dict[str, Any]:
    """The group does not exist yet; a token would be used up for nothing."""
    (interface,) = request["NetworkInterfaces"]
    bare = {name: value for name, value in interface.items() if name != "Groups"}
    return {**request, "NetworkInterfaces": [bare], "ClientToken": request["ClientToken"][:-4]}
