"""A template's resources as CloudFormation would ask for them, for services whose resources moto's
own CloudFormation passes over."""

from __future__ import annotations

import re

from advisor.infra.cloudformation import template
from tests.infra.aws.clients import client_of

REGION = "us-east-1"
ARGUMENTS = '["sweep", "run", "--on", "aws", "--vcpus", "1,2", "--budget", "5USD"]'
GIVEN = {
    "account": {"AlarmEmail": "you@example.com"},
    "schedules": {
        "AlarmEmail": "you@example.com",
        "Bucket": "advisor-test",
        "Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/advisor:1",
        "SweepArguments": ARGUMENTS,
        "Timezone": "Europe/Berlin",
    },
}


def given(name):
    """The stack's parameters, with a network of moto's."""
    values = dict(GIVEN[name])
    if name == "schedules":
        ec2 = client_of("ec2")
        values["Network"] = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        subnets = ec2.describe_subnets()["Subnets"]
        values["Subnets"] = ",".join(one["SubnetId"] for one in subnets[:2])
    return values


def resolved(name, **changes):
    """The properties of each resource as CloudFormation would ask for them."""
    document = template(name)
    told = {key: one.get("Default", "") for key, one in document["Parameters"].items()}
    told |= given(name) | changes
    names = {
        **told,
        "AWS::Partition": "aws",
        "AWS::Region": REGION,
        "AWS::AccountId": "123456789012",
        "AWS::StackName": "advisor",
    }
    if "Subnets" in names:
        names["Subnets"] = names["Subnets"].split(",")
    for key, one in document["Resources"].items():
        named = one["Properties"].get("Name", key) if "Properties" in one else key
        names[key] = _filled(named, names)
    return {key: _filled(one.get("Properties", {}), names) for key, one in document["Resources"].items()}


def _filled(value, names):
    if isinstance(value, list):
        return [_filled(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return names.get(value["Ref"])
    if set(value) == {"Fn::Sub"}:
        return re.sub(r"\$\{([\w:.]+)\}", lambda found: _text(found[1], names), value["Fn::Sub"])
    if set(value) == {"Fn::GetAtt"}:
        return _text(".".join(value["Fn::GetAtt"]), names)
    if set(value) == {"Fn::If"}:
        return _filled(value["Fn::If"][1 if names["DatabaseParameter"] else 2], names)
    filled = {key: _filled(one, names) for key, one in value.items()}
    return {key: one for key, one in filled.items() if one is not None}


def _text(place, names):
    """A name's value; an attribute of a resource as an ARN of the right form."""
    if place in names:
        return names[place]
    resource = place.partition(".")[0]
    kind = "role" if resource.endswith("Role") else "cluster"
    service = "iam" if kind == "role" else "ecs"
    return f"arn:aws:{service}:{'' if kind == 'role' else REGION}:123456789012:{kind}/{resource}"


def as_requests_write(properties):
    """The API writes two words of a network in lower case, and ARNs of task definitions whole."""
    target = dict(properties["Target"])
    ecs = dict(target["EcsParameters"])
    network = ecs["NetworkConfiguration"]["AwsvpcConfiguration"]
    ecs["NetworkConfiguration"] = {"awsvpcConfiguration": network}
    ecs["TaskDefinitionArn"] = f"arn:aws:ecs:{REGION}:123456789012:task-definition/{ecs['TaskDefinitionArn']}"
    return {**properties, "Target": {**target, "EcsParameters": ecs}}
