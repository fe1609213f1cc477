"""Checks credentials and permissions: the account must be able to launch and, above all, to end instances."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.errors import AdvisorError, LiveError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import AwsFailure, Refused
from advisor.infra.aws.managed import KINDS
from advisor.infra.aws.orders import Order, run_instances
from advisor.infra.aws.permissions import (
    Finding,
    action_of,
    good,
    mend_of,
    missing,
    not_checked,
    statements,
    without,
)

_CHECK = "data"


def guest_reads(aws: Aws, region: str, profile: str, address: str) -> Finding:
    """IAM's verdict on reading `s3://bucket/prefix` with the profile's role. Where IAM does not say, the
    launch goes on: a guest that is refused reports it."""
    if not profile:
        return missing(
            _CHECK, f"an instance without a role cannot read {address}", "leave --instance-profile none out"
        )
    try:
        answer = aws.ask(region, "get_instance_profile", service="iam", InstanceProfileName=profile)
        (role,) = answer["InstanceProfile"]["Roles"]
        rights = reading_policy(address, partition=str(role["Arn"]).split(":")[1])
        denied = []
        for statement in rights["Statement"]:
            beneath = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
            known = {"s3:prefix": beneath} if beneath else {}
            decisions = _decisions(
                aws, region, role["Arn"], statement["Action"], statement["Resource"], known
            )
            denied += [] if decisions == {"allowed"} else [statement["Action"]]
    except (AdvisorError, ValueError) as error:
        return without(_CHECK, f"nobody says whether {profile} may read {address}", error)
    if denied:
        name = role["RoleName"]
        return missing(
            _CHECK,
            f"the instances' role {name} may not {' and '.join(denied)} at {address}",
            f"`aws iam put-role-policy --role-name {name} --policy-name advisor-data "
            f"--policy-document '{json.dumps(rights)}'`",
        )
    return good(_CHECK, f"{role['RoleName']} may read {address}")


def reading_policy(address: str, *, partition: str) -> dict[str, Any]:
    """An IAM policy to list and read what lies at `s3://bucket/prefix`, and nothing else."""
    bucket, _, prefix = address.partition("://")[2].strip("/").partition("/")
    arn = f"arn:{partition}:s3:::{bucket}"
    beneath = f"{prefix}*"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": arn,
                "Condition": {"StringLike": {"s3:prefix": beneath}},
            },
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/{beneath}"},
        ],
    }


def _decisions(
    aws: Aws, region: str, principal: str, action: str, resource: str, known: Mapping[str, str]
) -> set[str]:
    """What IAM decides about an action on a resource, where these keys have these values."""
    answer = aws.ask(
        region,
        "simulate_principal_policy",
        service="iam",
        PolicySourceArn=principal,
        ActionNames=[action],
        ResourceArns=[resource],
        ContextEntries=[
            {"ContextKeyName": name, "ContextKeyValues": [value], "ContextKeyType": "string"}
            for name, value in known.items()
        ],
    )
    return {entry["EvalDecision"] for entry in answer.get("EvaluationResults", ())}


# No instance has this id: EC2 looks at the permission first.
_NOBODY = "i-00000000000000000"
_NO_GROUP = "sg-00000000000000000"
_NO_VOLUME = "vol-00000000000000000"
_NO_INTERFACE = "eni-00000000000000000"
_NO_SPOT = "sir-00000000"


def credentials(aws: Aws, region: str) -> tuple[str, Finding]:
    """The name (ARN) of who asks; empty where nobody is known."""
    try:
        answer = aws.ask(region, "get_caller_identity", service="sts")
    except LiveError as error:
        return "", missing("credentials", "there are none", str(error))
    except AdvisorError as error:
        return "", not_checked("credentials", error)
    name = str(answer.get("Arn", ""))
    return name, good("credentials", name or "accepted")


def region_enabled(aws: Aws, region: str, home: str = "us-east-1") -> Finding:
    """Whether the account may use a region: newer ones have to be opted into."""
    try:
        answer = aws.ask(home, "describe_regions", RegionNames=[region], AllRegions=True)
    except AdvisorError as error:
        if isinstance(error, Refused) and error.code == "InvalidParameterValue":
            return missing("region", f"there is no region {region}", "`aws ec2 describe-regions`")
        return not_checked("region", error)
    listed = answer.get("Regions", ())
    if not listed or listed[0].get("OptInStatus") == "not-opted-in":
        return missing(
            "region",
            f"the account has not opted into {region}",
            f"`aws account enable-region --region-name {region}`",
        )
    return good("region", f"{region} is enabled")


def profile(aws: Aws, region: str, name: str) -> Finding:
    """The instance profile: the role by which the guest writes what it measures."""
    if not name:
        return good("profile", "none: the guest gets no rights of its own")
    try:
        aws.ask(region, "get_instance_profile", service="iam", InstanceProfileName=name)
    except AdvisorError as error:
        if isinstance(error, Refused) and error.code == "NoSuchEntity":
            return missing(
                "profile",
                f"there is no instance profile {name}",
                "`advisor cloud template account > account.json`, then `aws cloudformation deploy "
                "--stack-name advisor-account --template-file account.json --capabilities "
                "CAPABILITY_NAMED_IAM`; or give --instance-profile none",
            )
        # It may exist all the same: the dry run shows.
        if isinstance(error, Refused) and error.kind is AwsFailure.PERMISSION:
            return good("profile", f"{name}, which may not be looked at")
        return not_checked("profile", error)
    return good("profile", name)


def lists(aws: Aws, region: str) -> Finding:
    """Whether all kinds of things may be listed: what is not seen cannot be ended."""
    for kind in KINDS:
        try:
            aws.ask(region, kind.operation, Filters=tags.managed_filters())
        except AdvisorError as error:
            return not_checked("lists", error)
    return good("lists", f"what carries our tags in {region} is listed")


def permissions(aws: Aws, order: Order, caller: str) -> Iterator[Finding]:
    """Whether what a launch and its end ask for is allowed; nothing is made. EC2 is asked with `DryRun`. What
    changes only things that carry our tag (as our own policy has it) is refused for things that do not exist:
    of that, IAM is asked."""
    region, sweep = order.option.region, order.sweep
    described = tags.base_tags(sweep.id, sweep.owner, order.expires_at, sweep.budget_usd)
    group = {
        "GroupName": tags.name_of(sweep.id),
        "Description": "dry run",
        "VpcId": order.network,
        "TagSpecifications": tags.specifications(described, ["security-group"]),
    }
    # The group does not exist yet; token and user data are for what is really launched.
    launch = run_instances(order)
    del launch["ClientToken"], launch["UserData"], launch["NetworkInterfaces"][0]["Groups"]
    yield _dry_run(aws, region, "run_instances", launch)
    yield _dry_run(aws, region, "create_security_group", group)
    tag = [{"Key": tags.EXPIRES_AT, "Value": tags.time_text(order.expires_at)}]
    held: dict[str, tuple[dict[str, Any], str]] = {
        "terminate_instances": ({"InstanceIds": [_NOBODY]}, f"instance/{_NOBODY}"),
        "delete_security_group": ({"GroupId": _NO_GROUP}, f"security-group/{_NO_GROUP}"),
        "create_tags": ({"Resources": [_NO_GROUP], "Tags": tag}, f"security-group/{_NO_GROUP}"),
        "delete_volume": ({"VolumeId": _NO_VOLUME}, f"volume/{_NO_VOLUME}"),
        "delete_network_interface": (
            {"NetworkInterfaceId": _NO_INTERFACE},
            f"network-interface/{_NO_INTERFACE}",
        ),
        "cancel_spot_instance_requests": (
            {"SpotInstanceRequestIds": [_NO_SPOT]},
            f"spot-instances-request/{_NO_SPOT}",
        ),
    }
    for operation, (request, thing) in held.items():
        facts = _dry_run(aws, region, operation, request)
        if not facts.ok and facts.check == "permission":
            facts = _simulated(aws, region, caller, operation, thing, facts)
        yield facts


def _dry_run(aws: Aws, region: str, operation: str, request: dict[str, Any]) -> Finding:
    action = _action(operation)
    try:
        aws.ask(region, operation, DryRun=True, **request)
    except Refused as refused:
        if refused.kind is AwsFailure.OK or _names_nothing(operation, refused):
            return good("permission", f"{action} is allowed")
        if refused.kind is AwsFailure.PERMISSION:
            return missing("permission", f"{action} is denied", mend_of(refused))
        return missing("dry run", str(refused), mend_of(refused))
    except AdvisorError as error:
        return not_checked("dry run", error)
    return missing("dry run", f"{action} takes no notice of DryRun", "ask AWS, not this endpoint")


def _simulated(aws: Aws, region: str, caller: str, operation: str, thing: str, denied: Finding) -> Finding:
    """IAM's verdict on actions on something with our tag; denied where IAM does not say."""
    action, principal = _action(operation), principal_of(aws, region, caller)
    partition, account = caller.split(":")[1], caller.split(":")[4]
    resource = f"arn:{partition}:ec2:{region}:{account}:{thing}"
    tagged = {f"aws:ResourceTag/{tags.MANAGED}": tags.MANAGED_VALUE}
    try:
        decisions = _decisions(aws, region, principal, action, resource, tagged)
    except AdvisorError:
        asking = statements(action, "iam:SimulatePrincipalPolicy")
        text = f"{action} is denied, or allowed for our tag only, which may not be asked"
        return missing("permission", text, f"allow it: {asking}")
    if decisions == {"allowed"}:
        return good("permission", f"{action} is allowed for what carries our tag")
    return denied


def principal_of(aws: Aws, region: str, caller: str) -> str:
    """The user or role behind a caller, as IAM knows it: a session's name is no principal, and
    lacks the role's path (those of IAM Identity Center have one)."""
    head, _, tail = caller.partition(":assumed-role/")
    if not tail:
        return caller
    name = tail.partition("/")[0]
    try:
        return str(aws.ask(region, "get_role", service="iam", RoleName=name)["Role"]["Arn"])
    except AdvisorError:
        return f"{head.replace(':sts:', ':iam:')}:role/{name}"


def _action(operation: str) -> str:
    return action_of("".join(word.capitalize() for word in operation.split("_")))


def _names_nothing(operation: str, refused: Refused) -> bool:
    """Allowed as far as is known: only what was named does not exist (or exists already). A
    launch names what exists (an instance profile, say): there it is wrong."""
    if operation == "run_instances":
        return False
    return ".NotFound" in refused.code or refused.code.startswith("Invalid")
