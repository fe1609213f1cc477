"""Checks before a launch: credentials, permissions, regions, and the bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.errors import AdvisorError, LiveError
from advisor.infra.aws import regions, tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import (
    AwsFailure,
    Finding,
    Refused,
    absent,
    action_of,
    good,
    mend_of,
    missing,
    not_checked,
)
from advisor.infra.aws.launch_options import LaunchOption, Region, Sweep
from advisor.infra.aws.orders import Order, in_order, run_instances
from advisor.infra.aws.regions import InstanceRequirements

_CHECK = "data"


def data_finding(caller: str, profile: str, address: str) -> Finding:
    """The right to read `s3://bucket/prefix`, which the instances' role must have. Nobody is asked whether it
    has: a guest that is refused reports it."""
    if not profile:
        return missing(
            _CHECK, f"an instance without a role cannot read {address}", "leave --instance-profile none out"
        )
    rights = json.dumps(reading_policy(address, partition=caller.split(":")[1]))
    return Finding(
        check=_CHECK,
        ok=False,
        stops=False,
        text=f"the role of {profile} must be able to read {address}, which is not checked",
        mend=f"`aws iam put-role-policy --role-name {profile} --policy-name advisor-data "
        f"--policy-document '{rights}'`",
    )


def reading_policy(address: str, *, partition: str) -> dict[str, Any]:
    """An IAM policy that only allows to list and read `s3://bucket/prefix`."""
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


def credentials(aws: Aws, region: str) -> tuple[str, Finding]:
    """The caller's ARN; empty without valid credentials."""
    try:
        answer = aws.ask(region, "get_caller_identity", service="sts")
    except LiveError as error:
        return "", missing("credentials", str(error.message), str(error.hint or ""))
    except AdvisorError as error:
        return "", not_checked("credentials", error)
    name = str(answer.get("Arn", ""))
    return name, good("credentials", name or "accepted")


def profile(aws: Aws, region: str, name: str) -> Finding:
    """Check that the instance profile exists, by whose role the guest writes its results."""
    if not name:
        return good("profile", "none: the guest gets no rights of its own")
    try:
        aws.ask(region, "get_instance_profile", service="iam", InstanceProfileName=name)
    except AdvisorError as error:
        # It may exist nevertheless, which the dry run will show.
        if isinstance(error, Refused) and error.kind is AwsFailure.PERMISSION:
            return good("profile", f"{name}, which may not be looked at")
        mend = (
            "`advisor cloud template account > account.json`, then `aws cloudformation deploy "
            "--stack-name advisor-account --template-file account.json --capabilities "
            "CAPABILITY_NAMED_IAM`; or give --instance-profile none"
        )
        return absent("profile", error, "NoSuchEntity", f"there is no instance profile {name}", mend)
    return good("profile", name)


def _dry_run(aws: Aws, region: str, operation: str, request: dict[str, Any]) -> Finding:
    action = action_of("".join(word.capitalize() for word in operation.split("_")))
    try:
        aws.ask(region, operation, DryRun=True, **request)
    except Refused as refused:
        if refused.kind is AwsFailure.OK or refused.code == "InvalidGroup.Duplicate":
            return good("permission", f"{action} is allowed")
        if refused.kind is AwsFailure.PERMISSION:
            return missing("permission", f"{action} is denied", mend_of(refused))
        return missing("dry run", str(refused), mend_of(refused))
    except AdvisorError as error:
        return not_checked("dry run", error)
    return missing("dry run", f"{action} takes no notice of DryRun", "ask AWS, not this endpoint")


class Preflight(Struct, frozen=True, kw_only=True):
    """The findings by region, and the launch options in the order in which they are tried. `caller` is the
    caller's ARN (empty: unknown, and nothing else was checked)."""

    caller: str
    findings: tuple[Finding, ...]
    regions: Mapping[str, Region]
    options: tuple[LaunchOption, ...]


def preflight_of(aws: Aws, names: Sequence[str], wish: InstanceRequirements, sweep: Sweep) -> Preflight:
    """Check the account and the regions, of which the first is the requested one. A problem in a further
    region only excludes that region."""
    caller, who = credentials(aws, names[0])
    if not who.ok:
        return Preflight(caller="", findings=(who,), regions={}, options=())
    findings = [who, profile(aws, names[0], sweep.profile)]
    existing: dict[str, Region] = {}
    offers: list[LaunchOption] = []
    for name in names:
        region, result, facts = _region(aws, name, wish)
        stops = name == names[0] and not result
        findings += [replace(entry, stops=stops and entry.stops) for entry in facts]
        if region is not None and result:
            existing[name] = region
            offers += result
    ordered = tuple(in_order(offers, [type_.name for type_ in wish.types], names))
    return Preflight(caller=caller, findings=tuple(findings), regions=existing, options=ordered)


def _region(
    aws: Aws, name: str, wish: InstanceRequirements
) -> tuple[Region | None, list[LaunchOption], list[Finding]]:
    nets, about_nets = regions.subnets(aws, name, wish)
    image, about_image = regions.image(aws, name, wish)
    zones, about_zones = regions.offered_zones(aws, name, wish.types)
    allowed, about_quotas = regions.quotas(aws, name, wish)
    # Only subnets of one network, in which the security group is created.
    own = [net for net in nets if net.network == nets[0].network]
    facts = [about_nets, about_image, about_zones, *about_quotas]
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


def launch_findings(aws: Aws, preflight: Preflight, sweep: Sweep, slot: str) -> list[Finding]:
    """Check if the requests of the first launch option are allowed (EC2's `DryRun`); nothing is created."""
    if not preflight.options:
        return []
    option = preflight.options[0]
    region = preflight.regions[option.region]
    order = Order(
        sweep=sweep,
        slot=slot,
        option=option,
        image=region.image,
        network=region.network,
        expires_at=aws.clock.now(),
    )
    described = tags.base_tags(sweep.id, sweep.owner, order.expires_at, sweep.budget_usd)
    group = {
        "GroupName": tags.name_of(sweep.id),
        "Description": "dry run",
        "VpcId": order.network,
        "TagSpecifications": tags.specifications(described, ["security-group"]),
    }
    # The group does not exist yet; token and user data belong to the real launch.
    launch = run_instances(order)
    del launch["ClientToken"], launch["UserData"], launch["NetworkInterfaces"][0]["Groups"]
    requests = {"run_instances": launch, "create_security_group": group}
    return [_dry_run(aws, option.region, operation, request) for operation, request in requests.items()]


def bucket_region(aws: Aws, region: str, name: str) -> tuple[str, Finding]:
    """The region of the bucket for job and measurements (empty without one), and its finding. The right to
    write shows only at a real launch."""
    if not name:
        return "", missing(
            "bucket",
            "none is named: the instance gets its job and sends its measurements by one",
            "`aws s3 mb s3://NAME`, then --bucket NAME or ADVISOR_BUCKET=NAME",
        )
    try:
        home = str(aws.ask(region, "head_bucket", service="s3", Bucket=name)["BucketRegion"])
    except AdvisorError as error:
        text, mend = f"there is no bucket {name}", f"`aws s3 mb s3://{name} --region {region}`"
        return "", absent("bucket", error, "404", text, mend)
    return home, good("bucket", f"{name} in {home}")
